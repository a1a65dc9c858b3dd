#include "hot/memory/own.h"

_Thread_local int64_t own_bytes;
