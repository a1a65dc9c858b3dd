/* Names of hosts: which of their addresses are tried, and who waits while they are looked up.
 *
 * The resolver is the test's own: its getaddrinfo() goes before that of libc. */
/* servers: redis */
#include "unit/hot/redis/rig.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>

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

RUN(cmocka_unit_test_setup_teardown(an_address_where_nobody_listens_is_followed_by_the_next, begin,
                                    end),
    cmocka_unit_test_setup_teardown(localhost_is_found_whatever_it_stands_for, begin, end),
    cmocka_unit_test_setup_teardown(a_resolver_that_does_not_answer_holds_up_nobody_else, begin,
                                    end),
    cmocka_unit_test_setup_teardown(a_name_that_nobody_knows_is_said, begin, end))
