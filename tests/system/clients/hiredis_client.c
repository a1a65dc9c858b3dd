/* hiredis_client.c - counts and likes with hiredis, as an application in C would.
 *
 *   hiredis_client PORT
 *
 * With RESP3 as well, where hiredis is new enough to read it. */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

static redisContext *connect_to(int port)
{
    struct timeval timeout = {.tv_sec = 20};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", port, timeout);
    CHECK(context && !context->err);
    CHECK(redisSetTimeout(context, timeout) == REDIS_OK);
    return context;
}

static redisReply *command(redisContext *context, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(context, format, args);
    va_end(args);
    if (!reply)
        fprintf(stderr, "%s: %s\n", format, context->errstr);
    CHECK(reply);
    return reply;
}

static void check_integer(redisReply *reply, long long expected)
{
    CHECK(reply->type == REDIS_REPLY_INTEGER);
    CHECK(reply->integer == expected);
    freeReplyObject(reply);
}

static void check_text(redisReply *reply, const char *expected)
{
    CHECK(reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
    CHECK(strcmp(reply->str, expected) == 0);
    freeReplyObject(reply);
}

static void check_nil(redisReply *reply)
{
    CHECK(reply->type == REDIS_REPLY_NIL);
    freeReplyObject(reply);
}

static void check_error(redisReply *reply, const char *word)
{
    CHECK(reply->type == REDIS_REPLY_ERROR);
    CHECK(strncmp(reply->str, word, strlen(word)) == 0);
    freeReplyObject(reply);
}

static void count(redisContext *context)
{
    check_text(command(context, "PING"), "PONG");
    check_integer(command(context, "INCR views"), 1);
    check_integer(command(context, "INCRBY views 41"), 42);
    check_integer(command(context, "DECR views"), 41);
    check_text(command(context, "GET %s", "views"), "41");
    check_nil(command(context, "GET nobody"));
    check_integer(command(context, "INCR %b", "a\0b", (size_t)3), 1);
    check_integer(command(context, "COUNTER.ADD votes 5 ID key1"), 5);
    check_integer(command(context, "COUNTER.ADD votes 5 ID key1"), 5);
    check_error(command(context, "COUNTER.ADD votes 6 ID key1"), "IDMISMATCH");
    check_error(command(context, "INCRBY views many"), "ERR value is not an integer");
    check_error(command(context, "NOSUCH"), "ERR unknown command");
    check_integer(command(context, "DEL views votes"), 2);
}

static void like(redisContext *context)
{
    check_integer(command(context, "LIKE video1 ann"), 1);
    check_integer(command(context, "LIKE video1 ann"), 0);
    check_integer(command(context, "DISLIKE video1 bob"), 1);
    check_text(command(context, "REACTION video1 bob"), "dislike");
    check_integer(command(context, "LIKE video1 bob"), 1);
    check_text(command(context, "GET video1/like"), "2");
    check_error(command(context, "INCR video1/like"), "WRONGTYPE");

    redisReply *counts = command(context, "COUNTS video1");
    CHECK(counts->elements == 4);
    CHECK(strcmp(counts->element[0]->str, "like") == 0 && counts->element[1]->integer == 2);
    CHECK(strcmp(counts->element[2]->str, "dislike") == 0 && counts->element[3]->integer == 0);
    freeReplyObject(counts);
    check_integer(command(context, "DEL video1"), 1);
}

static void pipeline(redisContext *context)
{
    enum { MANY = 2000 };
    for (int i = 0; i < MANY; i++) {
        CHECK(redisAppendCommand(context, "INCR piped") == REDIS_OK);
        CHECK(redisAppendCommand(context, "LIKE piped-item %d", i) == REDIS_OK);
    }
    for (int i = 0; i < MANY; i++) {
        redisReply *reply;
        CHECK(redisGetReply(context, (void **)&reply) == REDIS_OK);
        check_integer(reply, i + 1);
        CHECK(redisGetReply(context, (void **)&reply) == REDIS_OK);
        check_integer(reply, 1);
    }
    check_integer(command(context, "DEL piped piped-item"), 2);
}

static void subscribe(redisContext *context, int port)
{
    redisReply *reply = command(context, "SUBSCRIBE heard");
    CHECK(reply->elements == 3 && strcmp(reply->element[0]->str, "subscribe") == 0);
    freeReplyObject(reply);

    redisContext *other = connect_to(port);
    check_integer(command(other, "INCRBY heard 7"), 7);
    CHECK(redisGetReply(context, (void **)&reply) == REDIS_OK);
    CHECK(reply->elements == 3 && strcmp(reply->element[0]->str, "message") == 0);
    CHECK(strcmp(reply->element[1]->str, "heard") == 0);
    CHECK(strcmp(reply->element[2]->str, "7") == 0);
    freeReplyObject(reply);
    check_integer(command(other, "DEL heard"), 1);
    redisFree(other);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int port = (int)strtol(argv[1], NULL, 10);

    redisContext *context = connect_to(port);
    count(context);
    like(context);
    pipeline(context);
    subscribe(context, port);
    redisFree(context);
    puts("RESP2 is fine");

#ifdef REDIS_REPLY_MAP
    context = connect_to(port);
    redisReply *hello = command(context, "HELLO 3");
    CHECK(hello->type == REDIS_REPLY_MAP);
    freeReplyObject(hello);
    count(context);
    like(context);
    pipeline(context);
    redisFree(context);
    puts("RESP3 is fine");
#else
    puts("this hiredis does not read RESP3");
#endif
    return 0;
}
