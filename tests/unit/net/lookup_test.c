/* threads */
#include "net/lookup.h"

#include "unit/test.h"

#include <arpa/inet.h>
#include <unistd.h>

static int wait_for(struct lookup *lookup, struct addrinfo **ret_found)
{
    for (unsigned i = 0; i < 6000 && !lookup_is_done(lookup); i++)
        usleep(10000);
    assert_true(lookup_is_done(lookup));
    return lookup_take(lookup, ret_found);
}

TEST(an_address_is_answered_at_once)
{
    static const char *const addresses[] = {"127.0.0.1", "::1", "10.1.2.3"};
    for (unsigned i = 0; i < 3; i++) {
        struct lookup *lookup = lookup_new(addresses[i], "6379");
        assert_true(lookup_is_done(lookup));
        struct addrinfo *found = NULL;
        assert_int_equal(lookup_take(lookup, &found), 0);
        assert_non_null(found);
        char text[64];
        assert_int_equal(getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), NULL, 0,
                                     NI_NUMERICHOST),
                         0);
        assert_string_equal(text, addresses[i]);
        freeaddrinfo(found);
        lookup_free(lookup);
    }
}

TEST(a_name_is_answered_after_a_while)
{
    struct lookup *lookup = lookup_new("localhost", "6379");
    struct addrinfo *found = NULL;
    assert_int_equal(wait_for(lookup, &found), 0);
    assert_non_null(found);
    freeaddrinfo(found);
    lookup_free(lookup);
}

TEST(a_port_that_is_none_is_refused)
{
    struct lookup *lookup = lookup_new("127.0.0.1", "no port");
    struct addrinfo *found = NULL;
    assert_int_not_equal(wait_for(lookup, &found), 0);
    assert_null(found);
    lookup_free(lookup);
}

TEST(what_is_forgotten_is_freed_by_whoever_is_last)
{
    for (unsigned i = 0; i < 20; i++) {
        struct lookup *lookup = lookup_new("localhost", "6379");
        usleep(i * 100);
        lookup_free(lookup); /* found or not */
    }
    lookup_free(NULL);
}

RUN(cmocka_unit_test(an_address_is_answered_at_once),
    cmocka_unit_test(a_name_is_answered_after_a_while),
    cmocka_unit_test(a_port_that_is_none_is_refused),
    cmocka_unit_test(what_is_forgotten_is_freed_by_whoever_is_last))
