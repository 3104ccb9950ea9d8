/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing of exchanges between devices. Each step that may fail on one rank alone is
 * followed by an agreement, so that all ranks choose the same way.
 *
 *     reach the others' devices? -> agree -> mailbox -> agree -> descriptors -> map -> agree
 */
#include "runtime/base/clock.h"
#include "runtime/exchange/p2p.h"
#include "runtime/transport/descriptors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDENTITY_MAX = 64 };

/* What other ranks know of a rank's windows. */
typedef struct offer {
    uint64_t mailbox_bytes, memory_bytes;
    char identity[IDENTITY_MAX]; /* of its device */
} offer;

enum { MAILBOX, MEMORY, WINDOW_COUNT }; /* descriptors that each rank gives */

/* ---- steps of one rank ---- */

static tsr_result check_devices(tsr_ctx *ctx, const tsr_p2p *self, const offer *offers) {
    tsr_device *device = self->base.options.device;
    if (!device->type->peers)
        FAIL(ctx, TSR_MACHINE, "%s has no access to other devices", device->type->describe(device));
    if (!self->base.options.memory->window.size_bytes)
        FAIL(ctx, TSR_MACHINE, "%s cannot share its memory with other processes",
             device->type->describe(device));
    for (uint32_t r = 0; r < self->rank_count; r++)
        TRY(ctx, device->type->peers->check(ctx, device, offers[r].identity));
    return TSR_SUCCESS;
}

static tsr_result make_mailbox(tsr_ctx *ctx, tsr_p2p *self) {
    tsr_device *device = self->base.options.device;
    size_t slots = (size_t)self->rank_count * TSR_P2P_DEPTH * self->slot_bytes;
    return device->type->peers->allocate(ctx, device, self->slots_offset + slots,
                                         self->scratch_offset, &self->peers[self->rank].mailbox);
}

static tsr_result export_windows(tsr_ctx *ctx, tsr_p2p *self, int *out_fds) {
    tsr_device *device = self->base.options.device;
    const tsr_device_peers *peers = device->type->peers;
    TRY(ctx,
        peers->export_window(ctx, device, &self->peers[self->rank].mailbox, &out_fds[MAILBOX]));
    return peers->export_window(ctx, device, &self->base.options.memory->window, &out_fds[MEMORY]);
}

static tsr_result import_windows(tsr_ctx *ctx, tsr_p2p *self, const offer *offers, const int *fds) {
    tsr_device *device = self->base.options.device;
    const tsr_device_peers *peers = device->type->peers;
    for (uint32_t r = 0; r < self->rank_count; r++) {
        const int *own = fds + (size_t)r * WINDOW_COUNT;
        if (r == self->rank) continue;
        TRY(ctx, peers->import_window(ctx, device, own[MAILBOX], offers[r].mailbox_bytes,
                                      &self->peers[r].mailbox));
        TRY(ctx, peers->import_window(ctx, device, own[MEMORY], offers[r].memory_bytes,
                                      &self->peers[r].memory));
    }
    return TSR_SUCCESS;
}

static tsr_result trade(tsr_ctx *ctx, tsr_p2p *self, const offer *offers) {
    int own[WINDOW_COUNT] = {-1, -1}, all[TSR_TRANSPORT_RANKS_MAX * WINDOW_COUNT];
    tsr_ctx aside = tsr_ctx_fork(ctx);
    tsr_result result = export_windows(&aside, self, own);
    /* The exchange takes place in any case: other ranks wait for it. */
    for (int i = 0; result.code && i < WINDOW_COUNT; i++)
        if (own[i] < 0) own[i] = dup(STDERR_FILENO);
    tsr_result traded =
        tsr_descriptors_exchange(ctx, self->base.options.transport, own, WINDOW_COUNT, all);
    tsr_descriptors_close(own, WINDOW_COUNT);
    TRY(ctx, traded);
    if (!result.code) result = import_windows(&aside, self, offers, all);
    tsr_descriptors_close(all, self->rank_count * WINDOW_COUNT);
    return result.code ? tsr_error_adopt(ctx, &aside) : TSR_SUCCESS;
}

/* ---- all ranks ---- */

/* Fails on all ranks if the step failed on one. `trial` has the error of the step. */
static tsr_result agree(tsr_ctx *ctx, tsr_p2p *self, const tsr_ctx *trial, tsr_result result) {
    char text[TSR_EXCHANGE_REASON_MAX] = "";
    bool agreed = false;
    TRY(ctx, tsr_exchange_agree(ctx, self->base.options.transport, result, trial->error.text, text,
                                &agreed));
    if (agreed) return TSR_SUCCESS;
    FAIL(ctx, TSR_MACHINE, "%s", text);
}

/* Other work of the device, such as an evaluation by one rank, may take any time. */
static tsr_result watch(tsr_ctx *ctx, void *user) {
    tsr_p2p *self = user;
    tsr_transport *t = self->base.options.transport;
    if (!self->pending) return TSR_SUCCESS;
    tsr_result result = tsr_transport_watch(ctx, t, self->operation, self->began_ns);
    if (result.code) {
        self->failed = true;
        tsr_transport_fail(t, (tsr_code)result.code, ctx->error.text);
    }
    return result;
}

enum { FAR_AHEAD = 1 << 30 };

/* Sets the words such that no command waits any more. */
static tsr_result release_waits(tsr_ctx *ctx, void *user) {
    const tsr_p2p *self = user;
    tsr_device *device = self->base.options.device;
    for (uint32_t r = 0; r < self->rank_count; r++) {
        const tsr_p2p_peer *peer = &self->peers[r];
        const uint32_t counts[TSR_P2P_WORD_COUNT] = {[TSR_P2P_ARRIVED] = peer->received,
                                                     [TSR_P2P_CONSUMED] = peer->sent,
                                                     [TSR_P2P_READY] = peer->ready_seen,
                                                     [TSR_P2P_LANDED] = peer->landed_seen};
        for (int word = 0; word < TSR_P2P_WORD_COUNT; word++)
            TRY(ctx, device->type->peers->set(
                         ctx, device, TSR_PEER_RESCUE,
                         tsr_p2p_word_at(&self->peers[self->rank], r, (tsr_p2p_word)word),
                         counts[word] + FAR_AHEAD));
    }
    return TSR_SUCCESS;
}

static tsr_result open_stages(tsr_ctx *ctx, tsr_p2p *self) {
    tsr_device *device = self->base.options.device;
    tsr_transport *t = self->base.options.transport;
    offer offers[TSR_TRANSPORT_RANKS_MAX];
    tsr_ctx trial = tsr_ctx_fork(ctx);
    offer *own = &offers[self->rank];
    *own = (offer){.memory_bytes = self->base.options.memory->window.size_bytes};
    if (device->type->peers)
        snprintf(own->identity, sizeof own->identity, "%s",
                 device->type->peers->get_identity(device));
    TRY(ctx, tsr_all_gather_each(ctx, t, offers, sizeof *offers));
    TRY(ctx, agree(ctx, self, &trial, check_devices(&trial, self, offers)));
    TRY(ctx, agree(ctx, self, &trial, make_mailbox(&trial, self)));
    own->mailbox_bytes = self->peers[self->rank].mailbox.size_bytes;
    TRY(ctx, tsr_all_gather_each(ctx, t, offers, sizeof *offers));
    TRY(ctx, agree(ctx, self, &trial, trade(&trial, self, offers)));
    const tsr_peer_watch watched = {.call = watch, .release = release_waits, .user = self};
    device->type->peers->watch(device, &watched);
    self->began_ns = tsr_clock_ns();
    return TSR_SUCCESS;
}

static void release(tsr_p2p *self) {
    tsr_device *device = self->base.options.device;
    for (uint32_t r = 0; self->peers && r < self->rank_count; r++) {
        if (self->peers[r].mailbox.size_bytes)
            device->type->peers->release(device, &self->peers[r].mailbox);
        if (self->peers[r].memory.size_bytes)
            device->type->peers->release(device, &self->peers[r].memory);
    }
    free(self->peers);
    free(self);
}

static size_t choose_slot(uint32_t ranks) {
    size_t size =
        TSR_P2P_SLOTS_BYTES / TSR_P2P_DEPTH / ranks / TSR_P2P_WORDS_BYTES * TSR_P2P_WORDS_BYTES;
    if (size > TSR_P2P_SLOT_MAX) return TSR_P2P_SLOT_MAX;
    return size > TSR_P2P_SLOT_MIN ? size : TSR_P2P_SLOT_MIN;
}

tsr_result tsr_p2p_open(tsr_ctx *ctx, const tsr_exchanger_options *options, tsr_exchanger **out) {
    tsr_p2p *self = calloc(1, sizeof *self);
    if (!self) FAIL(ctx, TSR_MEMORY, "no memory for exchanges");
    uint32_t ranks = options->transport->rank_count;
    self->base.kind = &tsr_exchange_p2p;
    self->base.options = *options;
    self->rank = options->transport->rank;
    self->rank_count = ranks;
    self->scratch_offset = ((size_t)ranks * TSR_P2P_WORDS_BYTES + 4095) / 4096 * 4096;
    self->slot_bytes = options->chunk_bytes ? options->chunk_bytes : choose_slot(ranks);
    self->slots_offset = self->scratch_offset + TSR_P2P_SCRATCH_SLOTS * self->slot_bytes;
    self->peers = calloc(ranks, sizeof *self->peers);
    tsr_result result = TSR_SUCCESS;
    if (self->peers)
        result = open_stages(ctx, self);
    else
        result = tsr_fail_(ctx, TSR_MEMORY, 0, __FILE__, __LINE__, "no memory for exchanges");
    if (result.code)
        release(self);
    else
        *out = &self->base;
    return result;
}

/* Other ranks write into this one's memory until their commands are done. */
void tsr_p2p_close(tsr_exchanger *x) {
    tsr_p2p *self = (tsr_p2p *)x;
    tsr_device *device = x->options.device;
    tsr_ctx aside = {0};
    self->began_ns = tsr_clock_ns();
    if (!self->failed && !device->type->peers->wait(&aside, device).code)
        (void)!tsr_barrier(&aside, x->options.transport).code;
    device->type->peers->watch(device, NULL);
    release(self);
}
