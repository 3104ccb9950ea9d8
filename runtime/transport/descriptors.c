/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rank listens on a socket with an abstract name that contains random bytes, connects to the
 * sockets of all others, then answers each connection with its descriptors. Connections of other
 * users are closed. No rank waits for another one longer than the deadline
 * below, and connecting does not need the other rank to accept, so no order can block.
 */
#include "runtime/transport/descriptors.h"

#include "runtime/base/clock.h"
#include "runtime/transport/collective.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { DEADLINE_S = 20, NAME_WORDS = 2 };

typedef struct endpoint {
    uint64_t name[NAME_WORDS]; /* random */
} endpoint;

static socklen_t address_of(const endpoint *of, struct sockaddr_un *out) {
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    int length = snprintf(out->sun_path + 1, sizeof out->sun_path - 1,
                          "tessera-rank-%016" PRIx64 "%016" PRIx64, of->name[0], of->name[1]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static tsr_result open_socket(tsr_ctx *ctx, int *out_fd) {
    const struct timeval limit = {.tv_sec = DEADLINE_S};
    *out_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*out_fd < 0) FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot create a socket for other ranks");
    (void)setsockopt(*out_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(*out_fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return TSR_SUCCESS;
}

static tsr_result listen_as(tsr_ctx *ctx, const endpoint *own, uint32_t rank_count, int *out_fd) {
    struct sockaddr_un address;
    socklen_t size = address_of(own, &address);
    int fd = -1;
    TRY(ctx, open_socket(ctx, &fd));
    if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, (int)rank_count)) {
        int code = errno;
        close(fd);
        FAIL_ERRNO(ctx, TSR_MACHINE, code, "cannot listen for other ranks");
    }
    *out_fd = fd;
    return TSR_SUCCESS;
}

static tsr_result connect_to(tsr_ctx *ctx, const endpoint *to, uint32_t rank, int *out_fd) {
    struct sockaddr_un address;
    socklen_t size = address_of(to, &address);
    int fd = -1;
    TRY(ctx, open_socket(ctx, &fd));
    int failed;
    do failed = connect(fd, (struct sockaddr *)&address, size);
    while (failed && errno == EINTR);
    if (failed) {
        int code = errno;
        close(fd);
        FAIL_ERRNO(ctx, TSR_MACHINE, code, "cannot connect to rank %u", rank);
    }
    *out_fd = fd;
    return TSR_SUCCESS;
}

/* Memory for the control data of a message, with its alignment. */
typedef union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(TSR_DESCRIPTORS_MAX * sizeof(int))];
} control;

static tsr_result send_fds(tsr_ctx *ctx, int to, const int *fds, uint32_t count) {
    control data = {.bytes = {0}};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = data.bytes,
                             .msg_controllen = CMSG_SPACE(count * sizeof *fds)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof *fds);
    memcpy(CMSG_DATA(header), fds, count * sizeof *fds);
    ssize_t sent;
    do sent = sendmsg(to, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != 1) FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot give open files to another rank");
    return TSR_SUCCESS;
}

static bool is_own(int fd) {
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid();
}

/* Accepts a connection of another rank and answers it. */
static tsr_result serve(tsr_ctx *ctx, int listener, const int *fds, uint32_t count) {
    const uint64_t began_ns = tsr_clock_ns();
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        int error = errno;
        if (fd >= 0 && is_own(fd)) {
            tsr_result result = send_fds(ctx, fd, fds, count);
            close(fd);
            return result;
        }
        if (fd >= 0) close(fd);
        bool late = tsr_clock_ns() - began_ns > DEADLINE_S * UINT64_C(1000000000);
        if (late || (fd < 0 && error != EINTR))
            FAIL_ERRNO(ctx, TSR_RANK, fd < 0 ? error : EAGAIN,
                       "another rank did not ask for open files in %d s", DEADLINE_S);
    }
}

void tsr_descriptors_close(int *fds, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (fds[i] >= 0) close(fds[i]);
        fds[i] = -1;
    }
}

static tsr_result receive_fds(tsr_ctx *ctx, int from, uint32_t rank, uint32_t count, int *out_fds) {
    control data = {.bytes = {0}};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = data.bytes,
                             .msg_controllen = sizeof data.bytes};
    ssize_t received;
    do received = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    if (received != 1)
        FAIL_ERRNO(ctx, TSR_RANK, errno, "rank %u did not give its open files in %d s", rank,
                   DEADLINE_S);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    int found[TSR_DESCRIPTORS_MAX];
    size_t size = header && header->cmsg_type == SCM_RIGHTS ? header->cmsg_len - CMSG_LEN(0) : 0;
    if (size) memcpy(found, CMSG_DATA(header), size);
    if (size == count * sizeof *found) {
        memcpy(out_fds, found, size);
        return TSR_SUCCESS;
    }
    tsr_descriptors_close(found, (uint32_t)(size / sizeof *found));
    FAIL(ctx, TSR_RANK, "rank %u gave %zu open files instead of %u", rank, size / sizeof *found,
         count);
}

/* Connects to all others before it serves any of them. */
static tsr_result trade(tsr_ctx *ctx, const tsr_transport *t, const endpoint *all, int listener,
                        const int *fds, uint32_t count, int *out_fds) {
    int connections[TSR_TRANSPORT_RANKS_MAX];
    tsr_result result = TSR_SUCCESS;
    for (uint32_t r = 0; r < t->rank_count; r++) connections[r] = -1;
    for (uint32_t r = 0; r < t->rank_count && !result.code; r++)
        if (r != t->rank) result = connect_to(ctx, &all[r], r, &connections[r]);
    for (uint32_t r = 1; r < t->rank_count && !result.code; r++)
        result = serve(ctx, listener, fds, count);
    for (uint32_t r = 0; r < t->rank_count && !result.code; r++)
        if (r != t->rank)
            result = receive_fds(ctx, connections[r], r, count, out_fds + (size_t)r * count);
    for (uint32_t r = 0; r < t->rank_count; r++)
        if (connections[r] >= 0) close(connections[r]);
    return result;
}

tsr_result tsr_descriptors_exchange(tsr_ctx *ctx, tsr_transport *t, const int *fds, uint32_t count,
                                    int *out_fds) {
    endpoint all[TSR_TRANSPORT_RANKS_MAX];
    int listener = -1;
    TSR_ASSERT(count > 0 && count <= TSR_DESCRIPTORS_MAX);
    for (uint32_t i = 0; i < t->rank_count * count; i++) out_fds[i] = -1;
    if (getrandom(&all[t->rank], sizeof *all, 0) != (ssize_t)sizeof *all)
        FAIL_ERRNO(ctx, TSR_MACHINE, errno, "cannot draw the name of a socket");
    tsr_result result = listen_as(ctx, &all[t->rank], t->rank_count, &listener);
    /* Afterwards all ranks listen. A rank that does not is found when others connect to it. */
    tsr_ctx aside = tsr_ctx_fork(ctx);
    if (tsr_all_gather_each(&aside, t, all, sizeof *all).code)
        result = tsr_error_adopt(ctx, &aside);
    if (!result.code) result = trade(ctx, t, all, listener, fds, count, out_fds);
    if (listener >= 0) close(listener);
    if (result.code) tsr_descriptors_close(out_fds, t->rank_count * count);
    return result;
}
