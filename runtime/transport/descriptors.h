/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks on one host give each other open files, through Unix sockets.
 */
#ifndef TSR_RUNTIME_TRANSPORT_DESCRIPTORS_H
#define TSR_RUNTIME_TRANSPORT_DESCRIPTORS_H

#include "runtime/transport/transport.h"

enum { TSR_DESCRIPTORS_MAX = 4 };

/* Collective: each rank gives its `count` descriptors (the same number on all ranks, at most
 * TSR_DESCRIPTORS_MAX) to every other rank. out_fds: `count` for each rank, owned by the caller; -1
 * for this rank's own. Fails with TSR_MACHINE if the ranks are on several hosts, or if the network
 * namespace differs. */
TSR_RESULT tsr_descriptors_exchange(tsr_ctx *ctx, tsr_transport *t, const int *fds, uint32_t count,
                                    int *out_fds);
/* Closes those of other ranks. */
void tsr_descriptors_close(int *fds, uint32_t count);

#endif
