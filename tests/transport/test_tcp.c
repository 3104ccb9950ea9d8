/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining a job over TCP: ranks that come late, never or twice, with another key or another number
 * of ranks; strangers that call, stay silent or send nonsense.
 */
#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash/hmac.h"
#include "runtime/transport/tcp/tcp.h"
#include "tests/transport/ranks.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS_MAX = 4, PORT_TEXT_MAX = 8, STRANGERS = 20 };
static const char key[] = "0123456789abcdef", other_key[] = "0123456789abcdeF";

/* One process that joins, as a thread. */
typedef struct member {
    tsr_tcp_options options;
    unsigned late_ms;
    tsr_code code;
    char text[TSR_ERROR_TEXT_MAX], warning[TSR_ERROR_TEXT_MAX];
    pthread_t thread;
} member;

static void note_warning(void *user, tsr_log_level level, const char *text) {
    member *m = user;
    if (level == TSR_LOG_WARNING) snprintf(m->warning, sizeof m->warning, "%s", text);
}

static void *join(void *user) {
    member *m = user;
    tsr_ctx ctx = {.log = note_warning, .log_user = m, .log_level = TSR_LOG_WARNING};
    tsr_transport *t = NULL;
    usleep(m->late_ms * 1000);
    m->code = tsr_tcp_join(&ctx, &m->options, &t).code;
    if (!m->code) m->code = tsr_barrier(&ctx, t).code;
    if (!m->code) m->code = tsr_barrier(&ctx, t->secondary).code;
    snprintf(m->text, sizeof m->text, "%s", m->code ? ctx.error.text : "");
    tsr_transport_close(t);
    return NULL;
}

static const char *new_port(void) {
    static char text[PORT_TEXT_MAX];
    snprintf(text, sizeof text, "%u", (unsigned)ranks_free_port());
    return text;
}

static void fill(member *members, uint32_t count, const char *port) {
    for (uint32_t r = 0; r < count; r++)
        members[r] = (member){.options = {.size_bytes = sizeof(tsr_tcp_options),
                                          .rank = r,
                                          .rank_count = count,
                                          .address = "127.0.0.1",
                                          .port = port,
                                          .key = key,
                                          .key_bytes = sizeof key,
                                          .join_ns = UINT64_C(20) * 1000000000u}};
}

static void start(member *members, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(pthread_create(&members[i].thread, NULL, join, &members[i]), 0);
}

static void finish(member *members, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) pthread_join(members[i].thread, NULL);
}

static void expect_all_joined(const member *members, uint32_t count) {
    for (uint32_t r = 0; r < count; r++)
        cr_expect_eq(members[r].code, TSR_OK, "rank %u: %s", r, members[r].text);
}

static void expect_failed(const member *m, tsr_code code, const char *text) {
    cr_expect_eq(m->code, code, "%d: %s", m->code, m->text);
    cr_expect(strstr(m->text, text), "'%s' is not in '%s'", text, m->text);
}

static int dial(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = -1;
    for (int tries = 0; tries < 500; tries++) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
        close(fd);
        usleep(5000);
    }
    cr_assert_fail("nobody listens at port %s", port);
    return fd;
}

Test(tcp, ranks_may_start_in_any_order) {
    for (uint32_t late = 0; late < RANKS_MAX; late++) {
        member members[RANKS_MAX];
        fill(members, RANKS_MAX, new_port());
        members[late].late_ms = 100;
        start(members, RANKS_MAX);
        finish(members, RANKS_MAX);
        expect_all_joined(members, RANKS_MAX);
    }
}

Test(tcp, names_and_both_families_of_addresses) {
    static const char *const addresses[] = {"localhost", "127.0.0.1", "::1", "127.1.2.3"};
    for (size_t i = 0; i < TSR_COUNT(addresses); i++) {
        member members[3];
        fill(members, 3, new_port());
        for (int r = 0; r < 3; r++) members[r].options.address = addresses[i];
        start(members, 3);
        finish(members, 3);
        if (strstr(members[0].text, "Cannot assign requested address") ||
            strstr(members[0].text, "not supported"))
            continue; /* a host without IPv6 */
        expect_all_joined(members, 3);
    }
}

Test(tcp, without_a_key_only_on_this_host) {
    member members[2];
    char host[256] = "";
    fill(members, 2, new_port());
    for (int r = 0; r < 2; r++) members[r].options.key = NULL;
    start(members, 2);
    finish(members, 2);
    expect_all_joined(members, 2);

    gethostname(host, sizeof host - 1);
    fill(members, 2, new_port());
    for (int r = 0; r < 2; r++) {
        members[r].options.key = NULL;
        members[r].options.address = host;
    }
    start(members, 2);
    finish(members, 2);
    expect_failed(&members[0], TSR_USAGE, "the job has no key, and other hosts can reach its rank");
    expect_failed(&members[1], TSR_USAGE, "give all ranks the same key");

    for (int r = 0; r < 2; r++) members[r].options.insecure = true;
    start(members, 2);
    finish(members, 2);
    expect_all_joined(members, 2);
}

Test(tcp, a_rank_with_another_key_is_refused) {
    member members[3];
    fill(members, 2, new_port());
    members[2] = members[1];
    members[2].options.key = other_key;
    members[1].late_ms = 200;
    start(members, 3);
    finish(members, 3);
    expect_all_joined(members, 2);
    expect_failed(&members[2], TSR_RANK, "rank 0 has another job key than rank 1");
    cr_expect(strstr(members[0].warning, "is refused: it has another job key"), "%s",
              members[0].warning);
}

Test(tcp, a_rank_of_another_job_ends_the_job) {
    member members[2];
    fill(members, 2, new_port());
    members[1].options.rank_count = 3;
    start(members, 2);
    finish(members, 2);
    expect_failed(&members[0], TSR_RANK,
                  "a process that calls itself rank 1 cannot join: it belongs to a job of 3 ranks, "
                  "and rank 0 to a job of 2");
    expect_failed(&members[1], TSR_RANK, "rank 0 refuses rank 1: it belongs to a job of 3 ranks");
}

Test(tcp, a_rank_that_joins_twice_ends_the_job) {
    member members[3];
    fill(members, 3, new_port());
    members[2].options.rank = 1;
    members[2].late_ms = 100;
    start(members, 3);
    finish(members, 3);
    expect_failed(&members[0], TSR_RANK, "another process is rank 1 already");
    expect_failed(&members[2], TSR_RANK, "another process is rank 1 already");
    cr_expect_neq(members[1].code, TSR_OK);
}

Test(tcp, a_rank_that_never_comes_is_named) {
    member members[3];
    fill(members, 3, new_port());
    for (int r = 0; r < 3; r++) members[r].options.join_ns = 300 * 1000000u;
    start(members, 2);
    finish(members, 2);
    expect_failed(&members[0], TSR_RANK, "rank 2 did not join the job of 3 ranks within 0.3 s");
    cr_expect_neq(members[1].code, TSR_OK);

    fill(members, 2, new_port());
    members[1].options.join_ns = 200 * 1000000u;
    start(members + 1, 1);
    finish(members + 1, 1);
    expect_failed(&members[1], TSR_RANK, "rank 1 cannot reach rank 0 at '127.0.0.1', port ");
}

Test(tcp, strangers_do_not_disturb) {
    member members[3];
    char nonsense[200];
    int fds[STRANGERS];
    fill(members, 3, new_port());
    members[2].late_ms = 300;
    start(members, 3);
    for (int i = 0; i < STRANGERS; i++) { /* silent, short, nonsense, and gone at once */
        fds[i] = dial(members[0].options.port);
        memset(nonsense, i * 13 + 1, sizeof nonsense);
        if (i % 4 == 1) cr_assert_eq(send(fds[i], nonsense, 20, 0), 20);
        if (i % 4 == 2) cr_assert_eq(send(fds[i], nonsense, sizeof nonsense, 0), sizeof nonsense);
        if (i % 4 == 3) close(fds[i]);
    }
    finish(members, 3);
    expect_all_joined(members, 3);
    cr_expect(strstr(members[0].warning, "a connection from 127.0.0.1:"), "%s", members[0].warning);
    for (int i = 0; i < STRANGERS; i++)
        if (i % 4 != 3) close(fds[i]);
}

/* More than a rank listens to at a time: the oldest give way. */
Test(tcp, many_silent_strangers_do_not_delay) {
    enum { MANY = 300, MEMBERS = 3 };
    member members[MEMBERS];
    int fds[MANY];
    fill(members, MEMBERS, new_port());
    for (int r = 1; r < MEMBERS; r++) members[r].late_ms = 500;
    uint64_t began_ns = tsr_clock_ns();
    start(members, MEMBERS);
    for (int i = 0; i < MANY; i++) fds[i] = dial(members[0].options.port);
    finish(members, MEMBERS);
    expect_all_joined(members, MEMBERS);
    cr_expect_lt(tsr_clock_ns() - began_ns, UINT64_C(4) * 1000000000u);
    cr_expect(strstr(members[0].warning, "is refused: too many others call"), "%s",
              members[0].warning);
    for (int i = 0; i < MANY; i++) close(fds[i]);
}

/* What a rank that waits for its device sees of the others. */
static void *watch_other(void *user) {
    member *m = user;
    tsr_ctx ctx = {0};
    tsr_transport *t = NULL;
    m->code = tsr_tcp_join(&ctx, &m->options, &t).code;
    if (m->options.rank == 1) {
        usleep(m->late_ms * 1000);
        if (m->late_ms) tsr_transport_fail(t, TSR_NONFINITE, "the loss is NaN");
        tsr_transport_close(t);
        return NULL;
    }
    const uint64_t began_ns = tsr_clock_ns();
    while (!m->code && tsr_clock_ns() - began_ns < UINT64_C(10) * 1000000000u)
        m->code = tsr_transport_watch(&ctx, t, TSR_OPERATION_BARRIER, began_ns).code;
    snprintf(m->text, sizeof m->text, "%s", ctx.error.text);
    tsr_transport_close(t);
    return NULL;
}

Test(tcp, a_watching_rank_sees_a_failure_and_an_end) {
    for (unsigned late_ms = 0; late_ms <= 20; late_ms += 20) {
        member members[2];
        fill(members, 2, new_port());
        members[1].late_ms = late_ms;
        for (int r = 0; r < 2; r++)
            cr_assert_eq(pthread_create(&members[r].thread, NULL, watch_other, &members[r]), 0);
        finish(members, 2);
        expect_failed(&members[0], TSR_RANK,
                      late_ms ? "rank 1 failed: the loss is NaN"
                              : "rank 1 was lost in region 'run'");
    }
}

Test(tcp, a_port_that_is_taken_is_named) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char port[PORT_TEXT_MAX], expected[96];
    member m[1];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(listen(fd, 1), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(port, sizeof port, "%u", (unsigned)ntohs(address.sin_port));
    fill(m, 1, port);
    m->options.rank_count = 2;
    start(m, 1);
    finish(m, 1);
    snprintf(expected, sizeof expected,
             "cannot listen for the other ranks at 127.0.0.1:%s: Address already in use", port);
    expect_failed(m, TSR_MACHINE, expected);
    close(fd);
}

Test(tcp, bad_options_are_refused) {
    static const struct {
        uint32_t rank, rank_count;
        const char *address, *port;
        size_t key_bytes;
        const char *text;
    } rows[] = {
        {0, 0, "127.0.0.1", "1", 32, "a job of 0 ranks; 1 to 1024 are supported"},
        {0, 1025, "127.0.0.1", "1", 32, "a job of 1025 ranks"},
        {2, 2, "127.0.0.1", "1", 32, "rank 2 of a job of 2 ranks; ranks count from 0"},
        {0, 2, NULL, "1", 32, "a job needs an address and a port"},
        {0, 2, "127.0.0.1", NULL, 32, "a job needs an address and a port"},
        {0, 2, "127.0.0.1", "http-not", 32,
         "the address '127.0.0.1' of rank 0 with port 'http-not'"},
        {0, 2, "no.such.host.invalid", "1", 32, "the address 'no.such.host.invalid' of rank 0"},
        {0, 2, "127.0.0.1", "1", 15, "the job key has 15 bytes; expected at least 16"},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        member m[1] = {{.options = {.size_bytes = sizeof(tsr_tcp_options),
                                    .rank = rows[i].rank,
                                    .rank_count = rows[i].rank_count,
                                    .address = rows[i].address,
                                    .port = rows[i].port,
                                    .key = key,
                                    .key_bytes = rows[i].key_bytes,
                                    .join_ns = 100 * 1000000u}}};
        start(m, 1);
        finish(m, 1);
        expect_failed(m, TSR_USAGE, rows[i].text);
    }
}

/* RFC 4231, test cases 1, 2 and 6. */
Test(tcp, hmac) {
    unsigned char long_key[131], key_1[20];
    memset(long_key, 0xaa, sizeof long_key);
    memset(key_1, 0x0b, sizeof key_1);
    const struct {
        const void *key;
        size_t key_bytes;
        const char *message, *expected;
    } rows[] = {
        {key_1, sizeof key_1, "Hi There",
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {"Jefe", 4, "what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {long_key, sizeof long_key, "Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    };
    tsr_ctx ctx = {0};
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_digest code;
        char text[65];
        cr_assert_eq(tsr_hmac(&ctx, rows[i].key, rows[i].key_bytes, rows[i].message,
                              strlen(rows[i].message), &code)
                         .code,
                     TSR_OK);
        for (int b = 0; b < 32; b++) snprintf(text + 2 * b, 3, "%02x", code.bytes[b]);
        cr_expect_str_eq(text, rows[i].expected);
    }
}
