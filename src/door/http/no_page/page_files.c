/* What stands in for the page where it could not be built. */
#include "door/http/http_page.h"

static const char text[] =
    "<!doctype html>\n"
    "<html lang=\"en\">\n"
    "<head><meta charset=\"utf-8\"><title>Tally: no page in this build</title></head>\n"
    "<body>\n"
    "<h1>This build of Tally has no web page</h1>\n"
    "<p>The server works; only the page is missing: tallyd was built where Node.js 18 or newer "
    "and npm were not there, or with TALLY_NO_PAGE set.</p>\n"
    "<p>To have it, install <code>nodejs</code> and <code>npm</code>, run <code>make build</code> "
    "in Tally's folder without TALLY_NO_PAGE, and start tallyd again.</p>\n"
    "<p>Everything that the page does can be done by the HTTP API: "
    "<a href=\"/openapi.json\">its description</a>, <a href=\"/v1/status\">the status</a>, "
    "<a href=\"/metrics\">the metrics</a>.</p>\n"
    "</body>\n"
    "</html>\n";

const struct http_page_file http_page_files[] = {
    {"index.html", "text/html; charset=utf-8", {text, sizeof(text) - 1}, {NULL, 0}, "none", false},
};
const unsigned http_page_file_count = 1;
const bool http_page_is_whole = false;
