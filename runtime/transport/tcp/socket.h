/* SPDX-License-Identifier: Apache-2.0
 *
 * Non-blocking sockets with deadlines. Deadlines are times of tsr_clock_ns. Private to this folder.
 */
#ifndef TSR_RUNTIME_TRANSPORT_TCP_SOCKET_H
#define TSR_RUNTIME_TRANSPORT_TCP_SOCKET_H

#include "runtime/base/result.h"

#include <netinet/in.h>
#include <stdbool.h>

typedef union tcp_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} tcp_address;

enum { TCP_ADDRESS_TEXT_MAX = 72 };

/* "127.0.0.1:29500" or "[::1]:29500". */
const char *tsr_tcp_describe(const tcp_address *address, char out_text[TCP_ADDRESS_TEXT_MAX]);
/* An IPv4 address in IPv6 form becomes an IPv4 address. */
tcp_address tsr_tcp_normalize(tcp_address address);
bool tsr_tcp_is_loopback(const tcp_address *address);
bool tsr_tcp_same_host(const tcp_address *a, const tcp_address *b); /* apart from the port */
tcp_address tsr_tcp_with_port(tcp_address address, uint16_t port);
uint16_t tsr_tcp_port(const tcp_address *address);

/* Addresses of a host name; out_count: up to `max`. TSR_USAGE if the name is unknown. */
TSR_RESULT tsr_tcp_resolve(tsr_ctx *ctx, const char *host, const char *port, tcp_address *out,
                           size_t max, size_t *out_count);
/* Listens at one address, or if `only` is NULL at all addresses of this host. port 0: any port. */
TSR_RESULT tsr_tcp_listen(tsr_ctx *ctx, const tcp_address *only, uint16_t port, int *out_fd,
                          uint16_t *out_port);
/* Returns a connected socket, or -errno. */
int tsr_tcp_connect(const tcp_address *address, uint64_t until_ns);
/* Prepares a connected socket: small messages leave at once, and a host that vanished is noticed.
 */
void tsr_tcp_tune(int fd);
tcp_address tsr_tcp_peer(int fd);
tcp_address tsr_tcp_own(int fd);

/* Milliseconds until a deadline, for poll(); rounded up, at most a minute. */
int tsr_tcp_timeout(uint64_t until_ns);

#endif
