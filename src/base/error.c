#include "base/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum err error_set(struct error *error, enum err code, const char *format, ...)
{
    assert(code != ERR_OK);

    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
        error->code = code;
    }
    return code;
}

enum err error_set_errno(struct error *error, enum err code, int errnum, const char *format, ...)
{
    assert(code != ERR_OK);

    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);

        size_t used = strlen(error->text);
        char buffer[64];
        const char *reason = strerror_r(errnum, buffer, sizeof(buffer));
        snprintf(error->text + used, sizeof(error->text) - used, ": %s", reason);
        error->code = code;
    }
    return code;
}

const char *err_meaning(enum err code)
{
    static const char *const meanings[] = {
#define X(code, meaning) [code] = meaning,
        ERR_LIST(X)
#undef X
    };
    assert((size_t)code < sizeof(meanings) / sizeof(meanings[0]));
    return meanings[code];
}
