#include "door/http/http_problem.h"

#include <assert.h>

const struct http_problem_row http_problems[HTTP_PROBLEMS] = {
#define X(name, status, slug, title, advice) {status, slug, title, advice},
    HTTP_PROBLEM_LIST(X)
#undef X
};

const char http_log_is_down[] = "the log does not answer, and ack=log was asked for";

enum http_problem http_problem_of(enum err code)
{
    switch (code) {
    case ERR_OK:
        break;
    case ERR_INVALID:
        return HTTP_PROBLEM_INVALID;
    case ERR_NOT_FOUND:
        return HTTP_PROBLEM_NOT_FOUND;
    case ERR_EXISTS:
        return HTTP_PROBLEM_EXISTS;
    case ERR_WRONG_TYPE:
        return HTTP_PROBLEM_WRONG_TYPE;
    case ERR_OUT_OF_RANGE:
        return HTTP_PROBLEM_OUT_OF_RANGE;
    case ERR_BELOW_FLOOR:
        return HTTP_PROBLEM_BELOW_FLOOR;
    case ERR_KEY_REUSED:
        return HTTP_PROBLEM_KEY_REUSED;
    case ERR_TOO_LARGE:
        return HTTP_PROBLEM_TOO_LONG;
    case ERR_DENIED:
        return HTTP_PROBLEM_DENIED;
    case ERR_BUSY:
        return HTTP_PROBLEM_BUSY;
    case ERR_FULL:
        return HTTP_PROBLEM_DISK_FULL;
    case ERR_NO_FILES:
        return HTTP_PROBLEM_TOO_MANY_FILES;
    case ERR_TIMEOUT:
        return HTTP_PROBLEM_UNKNOWN;
    case ERR_UNAVAILABLE:
    case ERR_COLD:
    case ERR_STALE:
        return HTTP_PROBLEM_UNAVAILABLE;
    case ERR_MOVED:
        return HTTP_PROBLEM_MOVED;
    case ERR_NO_MEMORY:
        return HTTP_PROBLEM_MEMORY_FULL;
    case ERR_REFUSED:
        return HTTP_PROBLEM_REFUSED;
    case ERR_NO_KIND:
        return HTTP_PROBLEM_NO_KIND;
    case ERR_IO:
    case ERR_CORRUPT:
        return HTTP_PROBLEM_INTERNAL;
    }
    return HTTP_PROBLEM_INTERNAL; /* a code that nobody gave a place here */
}

enum http_problem http_problem_of_status(unsigned status)
{
    switch (status) {
    case 413:
        return HTTP_PROBLEM_TOO_LARGE;
    case 429:
        return HTTP_PROBLEM_BUSY;
    case 431:
        return HTTP_PROBLEM_LONG_HEAD;
    case 505:
        return HTTP_PROBLEM_BAD_VERSION;
    default:
        return HTTP_PROBLEM_BAD_HTTP;
    }
}

void http_problem_write(struct http_text *to, enum http_problem problem, const char *detail)
{
    assert(problem < HTTP_PROBLEMS);

    const struct http_problem_row *row = &http_problems[problem];
    HTTP_TEXT(to, "{\"type\":\"/problems/");
    http_text_add(to, slice_of(row->slug));
    HTTP_TEXT(to, "\",\"title\":\"");
    http_text_add(to, slice_of(row->title));
    HTTP_TEXT(to, "\",\"status\":");
    http_text_int(to, row->status);
    if (detail) {
        HTTP_TEXT(to, ",\"detail\":");
        http_text_string(to, slice_of(detail));
    }
    HTTP_TEXT(to, ",\"advice\":\"");
    http_text_add(to, slice_of(row->advice));
    HTTP_TEXT(to, "\"}");
}

const char *http_status_name(unsigned status)
{
    switch (status) {
    case 200:
        return "OK";
    case 201:
        return "Created";
    case 202:
        return "Accepted";
    case 204:
        return "No Content";
    case 304:
        return "Not Modified";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 409:
        return "Conflict";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 417:
        return "Expectation Failed";
    case 422:
        return "Unprocessable Content";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 503:
        return "Service Unavailable";
    case 505:
        return "HTTP Version Not Supported";
    case 507:
        return "Insufficient Storage";
    default:
        return "Unknown";
    }
}
