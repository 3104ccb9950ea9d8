/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/transport/tcp/socket.h"

#include "runtime/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    IDLE_S = 5,    /* idle time until the first question whether the other host is still there */
    QUESTIONS = 4, /* unanswered, one every IDLE_S: it is gone */
    POLL_MS_MAX = 60 * 1000,
};

/* ---- addresses ---- */

static socklen_t size_of(const tcp_address *address) {
    return address->any.sa_family == AF_INET6 ? sizeof address->v6 : sizeof address->v4;
}

uint16_t tsr_tcp_port(const tcp_address *address) {
    return ntohs(address->any.sa_family == AF_INET6 ? address->v6.sin6_port : address->v4.sin_port);
}

const char *tsr_tcp_describe(const tcp_address *address, char out_text[TCP_ADDRESS_TEXT_MAX]) {
    char host[INET6_ADDRSTRLEN] = "?";
    bool is_v6 = address->any.sa_family == AF_INET6;
    const void *bytes =
        is_v6 ? (const void *)&address->v6.sin6_addr : (const void *)&address->v4.sin_addr;
    inet_ntop(address->any.sa_family, bytes, host, sizeof host);
    snprintf(out_text, TCP_ADDRESS_TEXT_MAX, is_v6 ? "[%s]:%u" : "%s:%u", host,
             (unsigned)tsr_tcp_port(address));
    return out_text;
}

tcp_address tsr_tcp_normalize(tcp_address address) {
    if (address.any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address.v6.sin6_addr))
        return address;
    tcp_address out = {.v4 = {.sin_family = AF_INET, .sin_port = address.v6.sin6_port}};
    memcpy(&out.v4.sin_addr, address.v6.sin6_addr.s6_addr + 12, 4);
    return out;
}

bool tsr_tcp_is_loopback(const tcp_address *address) {
    if (address->any.sa_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    return ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool tsr_tcp_same_host(const tcp_address *a, const tcp_address *b) {
    if (a->any.sa_family != b->any.sa_family) return false;
    if (a->any.sa_family == AF_INET6)
        return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
    return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

tcp_address tsr_tcp_with_port(tcp_address address, uint16_t port) {
    if (address.any.sa_family == AF_INET6)
        address.v6.sin6_port = htons(port);
    else
        address.v4.sin_port = htons(port);
    return address;
}

tsr_result tsr_tcp_resolve(tsr_ctx *ctx, const char *host, const char *port, tcp_address *out,
                           size_t max, size_t *out_count) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    size_t count = 0;
    int code = getaddrinfo(host, port, &hints, &list);
    if (code)
        FAIL(ctx, TSR_USAGE, "the address '%s' of rank 0 with port '%s': %s", host, port,
             gai_strerror(code));
    for (const struct addrinfo *a = list; a && count < max; a = a->ai_next) {
        if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
        memset(&out[count], 0, sizeof out[count]);
        memcpy(&out[count++], a->ai_addr, a->ai_addrlen);
    }
    freeaddrinfo(list);
    if (count == 0) FAIL(ctx, TSR_USAGE, "the address '%s' of rank 0 has no IP address", host);
    *out_count = count;
    return TSR_SUCCESS;
}

/* ---- connections ---- */

void tsr_tcp_tune(int fd) {
    const int on = 1, idle_s = IDLE_S, questions = QUESTIONS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    /* Not TCP_USER_TIMEOUT: it would also end connections to a rank that is busy and does not read.
     */
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof questions);
}

tcp_address tsr_tcp_peer(int fd) {
    tcp_address address = {0};
    socklen_t size = sizeof address;
    getpeername(fd, &address.any, &size);
    return tsr_tcp_normalize(address);
}

tcp_address tsr_tcp_own(int fd) {
    tcp_address address = {0};
    socklen_t size = sizeof address;
    getsockname(fd, &address.any, &size);
    return tsr_tcp_normalize(address);
}

/* Returns -errno or a socket that listens. */
static int try_listen(const tcp_address *address) {
    const int on = 1, off = 0;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, &address->any, size_of(address)) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    int error = errno;
    close(fd);
    return -error;
}

tsr_result tsr_tcp_listen(tsr_ctx *ctx, const tcp_address *only, uint16_t port, int *out_fd,
                          uint16_t *out_port) {
    const tcp_address v4 = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    const tcp_address v6 = {
        .v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_any}};
    tcp_address at = only ? tsr_tcp_with_port(*only, port) : v6;
    char text[TCP_ADDRESS_TEXT_MAX];
    int fd = try_listen(&at);
    /* An IPv6 socket also accepts IPv4; a host may have no IPv6. */
    if (fd < 0 && fd != -EADDRINUSE && !only) {
        at = v4;
        fd = try_listen(&at);
    }
    if (fd < 0)
        FAIL_ERRNO(ctx, TSR_MACHINE, -fd, "cannot listen for the other ranks at %s",
                   tsr_tcp_describe(&at, text));
    tcp_address own = tsr_tcp_own(fd);
    *out_fd = fd;
    *out_port = tsr_tcp_port(&own);
    return TSR_SUCCESS;
}

int tsr_tcp_timeout(uint64_t until_ns) {
    uint64_t now = tsr_clock_ns();
    uint64_t ms = until_ns > now ? (until_ns - now + 999999u) / 1000000u : 0;
    return ms > POLL_MS_MAX ? POLL_MS_MAX : (int)ms;
}

int tsr_tcp_connect(const tcp_address *address, uint64_t until_ns) {
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    int error = connect(fd, &address->any, size_of(address)) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof error;
        int ready;
        do {
            ready = poll(&p, 1, tsr_tcp_timeout(until_ns));
        } while (ready < 0 && errno == EINTR);
        error = ETIMEDOUT;
        if (ready > 0) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (!error) {
        tsr_tcp_tune(fd);
        return fd;
    }
    close(fd);
    return -error;
}
