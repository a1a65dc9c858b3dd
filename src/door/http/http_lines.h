/* http_lines.h - POST /v1/batch: many writes and reads, a line of JSON each.
 *
 *   {"op":"like","item":"video1","user":"ann"}      →  {"line":1,"status":200,"changed":true,...}
 *   {"op":"add","id":"views","delta":5,"key":"k1"}  →  {"line":2,"status":200,"value":"5",...}
 *
 * What fits into a pass is run at once; a longer body goes on in the passes that
 * follow, so that others have their turn. */
#ifndef DOOR_HTTP_HTTP_LINES_H
#define DOOR_HTTP_HTTP_LINES_H

struct http_worker;

void http_lines_init(struct http_worker *worker);

/* At the end of a pass, while no batch is under way: takes the next lines of those
 * that have some left. */
void http_lines_go_on(struct http_worker *worker);

/* Forgets what is left. */
void http_lines_stop(struct http_worker *worker);

#endif
