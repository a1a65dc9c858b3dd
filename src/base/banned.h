/* banned.h - functions of libc that are never the right choice here.
 *
 * They overrun their target (strcpy, strcat, sprintf), share state between
 * threads (strtok, gmtime, localtime) or cannot say that they failed (atoi).
 * The build includes this file ahead of every source of ours; a use of one of
 * them then names an unknown identifier that says why. The headers that declare
 * them come first, so that their own text stays untouched. */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#undef strcpy
#define strcpy(to, from) strcpy_is_banned_use_memcpy_or_snprintf
#undef strcat
#define strcat(to, from) strcat_is_banned_use_a_buffer
#undef strncpy
#define strncpy(to, from, size) strncpy_is_banned_use_memcpy_or_snprintf
#undef strncat
#define strncat(to, from, size) strncat_is_banned_use_a_buffer
#undef sprintf
#define sprintf(...) sprintf_is_banned_use_snprintf
#undef vsprintf
#define vsprintf(to, format, args) vsprintf_is_banned_use_vsnprintf
#undef strtok
#define strtok(text, separators) strtok_is_banned_use_slices
#undef gmtime
#define gmtime(time) gmtime_is_banned_use_gmtime_r
#undef localtime
#define localtime(time) localtime_is_banned_use_localtime_r
#undef ctime
#define ctime(time) ctime_is_banned_use_strftime
#undef asctime
#define asctime(time) asctime_is_banned_use_strftime
#undef atoi
#define atoi(text) atoi_is_banned_use_decimal_parse
#undef atol
#define atol(text) atol_is_banned_use_decimal_parse

#endif
