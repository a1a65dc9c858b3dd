#include "net/redis_info.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static size_t line_size(struct slice text)
{
    size_t size = 0;
    while (size < text.size && text.data[size] != '\r' && text.data[size] != '\n')
        size++;
    return size;
}

struct slice redis_info_value(struct slice info, const char *name)
{
    assert(name && name[0] && name[strlen(name) - 1] == ':');

    size_t size = strlen(name);
    while (info.size > 0) {
        struct slice line = {info.data, line_size(info)};
        if (line.size >= size && memcmp(line.data, name, size) == 0)
            return (struct slice){line.data + size, line.size - size};
        size_t step = line.size < info.size ? line.size + 1 : line.size;
        info = (struct slice){info.data + step, info.size - step};
    }
    return (struct slice){NULL, 0};
}
