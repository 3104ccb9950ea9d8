/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a job with a key, as a relay between its two ranks sees them: they are encrypted, a
 * changed bit ends the job, and recorded bytes open no connection. The same relay reads and changes
 * the bytes of a job without a key, so it does see them.
 */
#include "runtime/base/array.h"
#include "runtime/transport/collective.h"
#include "runtime/transport/tcp/tcp.h"
#include "tests/transport/ranks.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINKS_MAX = 8, RECORD_BYTES = 1 << 20, DATA_BYTES = 1 << 16, PORT_TEXT_MAX = 8 };
static const char key[] = "0123456789abcdef", pattern[] = "a parameter of the model";

/* ---- the relay ---- */

typedef struct link {
    int caller, listener;  /* sockets */
    size_t sent, received; /* bytes of the caller, and for it */
    char *record;          /* what the caller sent, then what it received; RECORD_BYTES each */
} link_;

typedef struct relay {
    int listener, stop[2];
    uint16_t to;
    size_t flip_at; /* the byte for the caller of the first connection that gets another bit; 0: no
                       byte */
    link_ links[LINKS_MAX];
    size_t count;
    pthread_t thread;
} relay;

static struct sockaddr_in address_of(uint16_t port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int dial(uint16_t port) {
    struct sockaddr_in address = address_of(port);
    for (int tries = 0; tries < 1000; tries++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
        close(fd);
        usleep(5000);
    }
    return -1;
}

/* Passes bytes on; false: one side closed. */
static bool pass(relay *r, link_ *l, bool from_caller) {
    char bytes[4096];
    int from = from_caller ? l->caller : l->listener, to = from_caller ? l->listener : l->caller;
    size_t *done = from_caller ? &l->sent : &l->received;
    ssize_t count = recv(from, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    if (l == r->links && !from_caller && r->flip_at >= *done &&
        r->flip_at < *done + (size_t)count && r->flip_at)
        bytes[r->flip_at - *done] ^= 4;
    for (ssize_t i = 0; i < count && *done + (size_t)i < RECORD_BYTES; i++)
        l->record[(from_caller ? 0 : RECORD_BYTES) + *done + (size_t)i] = bytes[i];
    *done += (size_t)count;
    for (ssize_t at = 0; at < count;) {
        ssize_t sent = send(to, bytes + at, (size_t)(count - at), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += sent;
    }
    return true;
}

static void end_link(link_ *l) {
    if (l->caller < 0) return;
    close(l->caller);
    close(l->listener);
    l->caller = l->listener = -1;
}

static void take_link(relay *r) {
    link_ *l = &r->links[r->count];
    l->caller = accept(r->listener, NULL, NULL);
    l->listener = dial(r->to);
    l->record = calloc(2, RECORD_BYTES);
    cr_assert(l->caller >= 0 && l->listener >= 0 && l->record);
    r->count++;
}

static void *run_relay(void *user) {
    relay *r = user;
    for (;;) {
        struct pollfd polls[2 + 2 * LINKS_MAX] = {{.fd = r->listener, .events = POLLIN},
                                                  {.fd = r->stop[0], .events = POLLIN}};
        nfds_t count = 2;
        for (size_t i = 0; i < r->count; i++) {
            polls[count++] = (struct pollfd){.fd = r->links[i].caller, .events = POLLIN};
            polls[count++] = (struct pollfd){.fd = r->links[i].listener, .events = POLLIN};
        }
        poll(polls, count, -1);
        if (polls[1].revents) return NULL;
        for (size_t i = 0; 2 + 2 * i < count; i++)
            for (int side = 0; side < 2; side++)
                if (r->links[i].caller >= 0 && polls[2 + 2 * i + (size_t)side].revents &&
                    !pass(r, &r->links[i], side == 0))
                    end_link(&r->links[i]);
        if (polls[0].revents && r->count < LINKS_MAX) take_link(r);
    }
}

static void start_relay(relay *r, uint16_t to, size_t flip_at, uint16_t *out_port) {
    struct sockaddr_in address = address_of(0);
    socklen_t size = sizeof address;
    *r = (relay){.to = to, .flip_at = flip_at, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    cr_assert_eq(bind(r->listener, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(listen(r->listener, LINKS_MAX), 0);
    cr_assert_eq(getsockname(r->listener, (struct sockaddr *)&address, &size), 0);
    *out_port = ntohs(address.sin_port);
    cr_assert_eq(pipe(r->stop), 0);
    cr_assert_eq(pthread_create(&r->thread, NULL, run_relay, r), 0);
}

static void stop_relay(relay *r) {
    cr_assert_eq(write(r->stop[1], "", 1), 1);
    pthread_join(r->thread, NULL);
    for (size_t i = 0; i < r->count; i++) end_link(&r->links[i]);
    close(r->listener);
    close(r->stop[0]);
    close(r->stop[1]);
}

static void free_records(relay *r) {
    for (size_t i = 0; i < r->count; i++) free(r->links[i].record);
}

static bool saw(const relay *r, const char *text, size_t size) {
    for (size_t i = 0; i < r->count; i++)
        if (memmem(r->links[i].record, (size_t)2 * RECORD_BYTES, text, size)) return true;
    return false;
}

/* ---- two ranks ---- */

typedef struct member {
    tsr_tcp_options options;
    char port[PORT_TEXT_MAX];
    bool same; /* the data arrived as they were sent */
    tsr_code code;
    char text[TSR_ERROR_TEXT_MAX], warnings[4 * TSR_ERROR_TEXT_MAX];
    pthread_t thread;
} member;

static void note_warning(void *user, tsr_log_level level, const char *text) {
    member *m = user;
    size_t at = strlen(m->warnings);
    if (level == TSR_LOG_WARNING) snprintf(m->warnings + at, sizeof m->warnings - at, "%s\n", text);
}

/* Rank 0 sends the pattern, many times, on both ends. */
static void *join(void *user) {
    member *m = user;
    tsr_ctx ctx = {.log = note_warning, .log_user = m, .log_level = TSR_LOG_WARNING};
    tsr_transport *t = NULL;
    char *data = calloc(1, DATA_BYTES), *expected = malloc(DATA_BYTES);
    cr_assert(data && expected);
    for (size_t i = 0; i < DATA_BYTES; i++) expected[i] = pattern[i % sizeof pattern];
    m->code = tsr_tcp_join(&ctx, &m->options, &t).code;
    m->same = true;
    for (int end = 0; end < 2 && !m->code; end++) {
        memset(data, 0, DATA_BYTES);
        if (m->options.rank == 0) memcpy(data, expected, DATA_BYTES);
        m->code = tsr_broadcast(&ctx, end ? t->secondary : t, 0, data, DATA_BYTES).code;
        m->same = m->same && memcmp(data, expected, DATA_BYTES) == 0;
    }
    snprintf(m->text, sizeof m->text, "%s", m->code ? ctx.error.text : "");
    if (m->code && t) tsr_transport_fail(t, m->code, ctx.error.text);
    tsr_transport_close(t);
    free(data);
    free(expected);
    return NULL;
}

static void run_pair(member members[2], const void *with_key, size_t flip_at, relay *r) {
    uint16_t real = ranks_free_port(), through;
    start_relay(r, real, flip_at, &through);
    for (uint32_t i = 0; i < 2; i++) {
        members[i] = (member){.options = {.size_bytes = sizeof(tsr_tcp_options),
                                          .rank = i,
                                          .rank_count = 2,
                                          .address = "127.0.0.1",
                                          .key = with_key,
                                          .key_bytes = with_key ? sizeof key : 0,
                                          .join_ns = UINT64_C(20) * 1000000000u,
                                          .deadline_ns = UINT64_C(10) * 1000000000u,
                                          .secondary_deadline_ns = UINT64_C(10) * 1000000000u}};
        snprintf(members[i].port, PORT_TEXT_MAX, "%u", (unsigned)(i ? through : real));
        members[i].options.port = members[i].port;
    }
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&members[i].thread, NULL, join, &members[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(members[i].thread, NULL);
    stop_relay(r);
}

static bool both_joined(const member members[2]) { return !members[0].code && !members[1].code; }

Test(tls, data_are_encrypted) {
    for (int with_key = 0; with_key < 2; with_key++) {
        member members[2];
        relay r;
        run_pair(members, with_key ? key : NULL, 0, &r);
        cr_expect(both_joined(members), "%s; %s", members[0].text, members[1].text);
        cr_expect(members[0].same && members[1].same);
        cr_expect_eq(r.count, 2);
        cr_expect_eq(saw(&r, pattern, sizeof pattern), !with_key);
        cr_expect_eq(saw(&r, "TSRRANK2", 8), !with_key);
        cr_expect_not(saw(&r, key, sizeof key - 1));
        free_records(&r);
    }
}

Test(tls, a_changed_bit_ends_the_job) {
    enum { IN_THE_DATA = 20000 };
    member members[2];
    relay r;
    run_pair(members, NULL, IN_THE_DATA, &r);
    cr_expect(both_joined(members), "%s; %s", members[0].text, members[1].text);
    cr_expect_not(members[1].same);
    free_records(&r);
    run_pair(members, key, IN_THE_DATA, &r);
    cr_expect_eq(members[1].code, TSR_RANK, "%s", members[1].text);
    cr_expect(strstr(members[1].text, "Bad message"), "%s", members[1].text);
    free_records(&r);
}

/* Changes some bytes of the handshake, from the listener to the caller, one after the other. */
Test(tls, a_changed_handshake_is_refused) {
    for (size_t at = 1; at < 240; at += 17) {
        member members[2];
        relay r;
        uint16_t real = ranks_free_port(), through;
        start_relay(&r, real, at, &through);
        for (uint32_t i = 0; i < 2; i++) {
            members[i] = (member){.options = {.size_bytes = sizeof(tsr_tcp_options),
                                              .rank = i,
                                              .rank_count = 2,
                                              .address = "127.0.0.1",
                                              .key = key,
                                              .key_bytes = sizeof key,
                                              .join_ns = 300 * 1000000u}};
            snprintf(members[i].port, PORT_TEXT_MAX, "%u", (unsigned)(i ? through : real));
            members[i].options.port = members[i].port;
            cr_assert_eq(pthread_create(&members[i].thread, NULL, join, &members[i]), 0);
        }
        for (int i = 0; i < 2; i++) pthread_join(members[i].thread, NULL);
        stop_relay(&r);
        for (int i = 0; i < 2; i++)
            cr_expect_eq(members[i].code, TSR_RANK, "byte %zu: rank %d: %d, %s", at, i,
                         members[i].code, members[i].text);
        free_records(&r);
    }
}

Test(tls, recorded_bytes_open_no_connection) {
    member members[2], again[1];
    relay r;
    run_pair(members, key, 0, &r);
    cr_assert(both_joined(members), "%s; %s", members[0].text, members[1].text);
    again[0] = members[0];
    again[0].warnings[0] = 0;
    again[0].options.join_ns = 1000 * 1000000u;
    again[0].options.port = again[0].port;
    cr_assert_eq(pthread_create(&again[0].thread, NULL, join, &again[0]), 0);
    int fd = dial(r.to);
    cr_assert(fd >= 0);
    cr_expect_eq(send(fd, r.links[0].record, r.links[0].sent, MSG_NOSIGNAL),
                 (ssize_t)r.links[0].sent);
    pthread_join(again[0].thread, NULL);
    close(fd);
    cr_expect_eq(again[0].code, TSR_RANK);
    cr_expect(strstr(again[0].text, "rank 1 did not join"), "%s", again[0].text);
    cr_expect(strstr(again[0].warnings, "is refused: it has another job key"), "%s",
              again[0].warnings);
    free_records(&r);
}

/* One rank has a key, the other one has none: both say so. */
Test(tls, a_key_on_one_side_only) {
    for (int who = 0; who < 2; who++) {
        member members[2];
        uint16_t port = ranks_free_port();
        for (uint32_t i = 0; i < 2; i++) {
            bool has = (int)i == who;
            members[i] = (member){.options = {.size_bytes = sizeof(tsr_tcp_options),
                                              .rank = i,
                                              .rank_count = 2,
                                              .address = "127.0.0.1",
                                              .key = has ? key : NULL,
                                              .key_bytes = has ? sizeof key : 0,
                                              .join_ns = 1000 * 1000000u}};
            snprintf(members[i].port, PORT_TEXT_MAX, "%u", (unsigned)port);
            members[i].options.port = members[i].port;
            cr_assert_eq(pthread_create(&members[i].thread, NULL, join, &members[i]), 0);
        }
        for (int i = 0; i < 2; i++) pthread_join(members[i].thread, NULL);
        const char *warning = who ? "it has a job key, and this rank has none"
                                  : "it is not a rank of Tessera with a job key";
        cr_expect(strstr(members[0].warnings, warning), "%s", members[0].warnings);
        if (who == 0)
            cr_expect(strstr(members[1].text,
                             "rank 0 does not answer rank 1; if it has a job key, rank 1 needs it"),
                      "%s", members[1].text);
        cr_expect_neq(members[1].code, TSR_OK);
    }
}
