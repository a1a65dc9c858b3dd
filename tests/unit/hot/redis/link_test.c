/* Names of hosts: which of their addresses are tried, and who waits while they are looked up. More
 * than a connection may hold.
 *
 * The resolver is the test's own: its getaddrinfo() goes before that of libc. */
/* servers: redis */
/* threads */
#include "unit/hot/redis/rig.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>

#include "hot/redis/link.h"
#include "net/timer.h"

static struct rig rig;
static char port[8];
static _Atomic bool is_stuck; /* "stuck.test" is not answered */

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static int real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                            struct addrinfo **ret)
{
    getaddrinfo_fn *real = (getaddrinfo_fn *)dlsym(RTLD_NEXT, "getaddrinfo");
    return real(host, service, hints, ret);
}

/* Two addresses, at the first of which nobody listens. */
static int find_both(const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
    int status = real_getaddrinfo("127.0.0.2", service, hints, ret);
    return status ? status : real_getaddrinfo("127.0.0.1", service, hints, &(*ret)->ai_next);
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    bool is_name = !(hints->ai_flags & AI_NUMERICHOST);
    if (is_name && strcmp(host, "two.test") == 0)
        return find_both(service, hints, ret);
    if (is_name && strcmp(host, "stuck.test") == 0) {
        while (atomic_load(&is_stuck))
            usleep(1000);
        return EAI_AGAIN;
    }
    return real_getaddrinfo(host, service, hints, ret);
}

static int begin(void **state)
{
    (void)state;
    rig_open(&rig);
    assert_int_equal(sscanf(getenv("TALLY_TEST_REDIS"), "redis://127.0.0.1:%7[0-9]", port), 1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    atomic_store(&is_stuck, false);
    rig_close(&rig);
    return 0;
}

static struct hot *open_at(const char *hosts)
{
    char rest[128];
    snprintf(rest, sizeof(rest), hosts, port, port);
    snprintf(rig.url, sizeof(rig.url), "redis://%s/%s", rest, rig.prefix);
    struct hot *hot = rig_node(&rig);
    rig_open_all(hot);
    return hot;
}

TEST(an_address_where_nobody_listens_is_followed_by_the_next)
{
    struct hot *hot = open_at("two.test:%s");
    assert_int_equal(rig_run(hot, rig_add("found", 7)).value.small, 7);
}

TEST(localhost_is_found_whatever_it_stands_for)
{
    struct hot *hot = open_at("localhost:%s");
    assert_int_equal(rig_run(hot, rig_add("local", 7)).value.small, 7);
}

static uint64_t now_ms(void)
{
    return env_monotonic_ns(env_system()) / 1000000;
}

TEST(a_resolver_that_does_not_answer_holds_up_nobody_else)
{
    atomic_store(&is_stuck, true);
    alarm(60);
    uint64_t began_ms = now_ms();
    struct hot *hot = open_at("stuck.test:%s,127.0.0.1:%s");
    assert_int_equal(rig_run(hot, rig_add("beside", 7)).value.small, 7);
    assert_true(now_ms() - began_ms < 10000);
    rig.nodes[0] = NULL;
    hot_close(hot); /* nor the end */
    alarm(0);
}

TEST(a_name_that_nobody_knows_is_said)
{
    struct error error = {.text = ""};
    struct hot *hot = NULL;
    rig.options.url = "redis://stuck.test:1/p";
    assert_int_equal(redis_hot_open(env_system(), &rig.options, &hot, &error), ERR_OK);
    char reason[256] = "";
    for (unsigned i = 0; i < 500 && !strstr(reason, gai_strerror(EAI_AGAIN)); i++) {
        usleep(10000);
        assert_false(redis_hot_status(hot, reason, sizeof(reason)));
    }
    assert_non_null(strstr(reason, "stuck.test:1"));
    assert_non_null(strstr(reason, gai_strerror(EAI_AGAIN)));
    hot_close(hot);
}

/* ---- more than may wait to be sent ---- */

#define OUT_MAX (512u << 10) /* the scripts of a greeting have to fit */

struct alone {
    struct loop *loop;
    struct link *link;
    struct timer *timer;
    unsigned became_ready;
    unsigned lost;
    unsigned answered;
    unsigned passes;
};

static void alone_changed(void *arg, struct link *link)
{
    struct alone *alone = arg;
    alone->became_ready += link_is_ready(link);
}

static void alone_tick(void *arg)
{
    struct alone *alone = arg;
    link_tick(alone->link);
    link_flush(alone->link);
    if (++alone->passes > 3000)
        fail_msg("it does not come to an end");
}

static void alone_replied(void *arg, struct link *link, const struct redisReply *reply)
{
    struct alone *alone = arg;
    (void)link;
    alone->lost += !reply;
    alone->answered += reply && reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "hi") == 0;
    if (reply)
        loop_stop(alone->loop);
}

static void alone_hook(void *arg)
{
    struct alone *alone = arg;
    if (alone->became_ready == 1 && alone->lost == 0) {
        static char much[OUT_MAX];
        memset(much, 'x', sizeof(much));
        /* A command in pieces, as they are put by those who know nothing of limits. */
        link_put(alone->link, SLICE("*2\r\n$4\r\nECHO\r\n$524288\r\n"));
        link_put(alone->link, (struct slice){much, sizeof(much)});
        assert_int_equal(alone->lost, 0); /* nobody is called back in the middle of it */
        assert_int_equal(alone->became_ready, 1);
        assert_false(link_is_ready(alone->link));
        assert_true(link_down_ns(alone->link) < UINT64_C(60000000000));
        link_put(alone->link, SLICE("\r\n"));
        link_expect(alone->link, alone_replied, alone);
        link_put(alone->link, SLICE("*1\r\n$4\r\nPING\r\n"));
        link_expect(alone->link, alone_replied, alone);
        link_flush(alone->link);
        assert_int_equal(alone->lost, 2);
    } else if (alone->became_ready == 2 && alone->answered == 0) {
        link_put(alone->link, SLICE("*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n"));
        link_expect(alone->link, alone_replied, alone);
        link_flush(alone->link);
        alone->became_ready++;
    }
}

TEST(who_puts_more_than_may_wait_begins_anew_with_nothing_of_it)
{
    struct alone alone = {.loop = loop_new(NULL)};
    struct link_setup setup = {.loop = alone.loop,
                               .env = env_system(),
                               .timeout_ns = UINT64_C(20000000000),
                               .out_max = OUT_MAX,
                               .changed = alone_changed,
                               .arg = &alone};
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%s", port);
    alone.link = link_new(&setup, slice_of(address));
    alone.timer = timer_new(alone.loop, alone_tick, &alone);
    struct loop_hook *hook = loop_hook_new(alone.loop, alone_hook, &alone);
    timer_start(alone.timer, 0, 10);
    loop_run(alone.loop);
    assert_int_equal(alone.lost, 2);
    assert_int_equal(alone.answered, 1);
    loop_hook_free(hook);
    timer_free(alone.timer);
    link_free(alone.link);
    loop_free(alone.loop);
}

RUN(cmocka_unit_test_setup_teardown(an_address_where_nobody_listens_is_followed_by_the_next, begin,
                                    end),
    cmocka_unit_test_setup_teardown(localhost_is_found_whatever_it_stands_for, begin, end),
    cmocka_unit_test_setup_teardown(a_resolver_that_does_not_answer_holds_up_nobody_else, begin,
                                    end),
    cmocka_unit_test_setup_teardown(a_name_that_nobody_knows_is_said, begin, end),
    cmocka_unit_test_setup_teardown(who_puts_more_than_may_wait_begins_anew_with_nothing_of_it,
                                    begin, end))
