/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rank receives a message with a description and the first bytes; the rest is then sent
 * directly between the buffers. A receiver knows the expected message, so it requests the rest only
 * after it has checked the first part.
 */
#include "runtime/transport/mpi/job.h"

#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/base/options.h"
#include "runtime/base/plural.h"
#include "runtime/transport/message.h"
#include "runtime/transport/mpi/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SCRATCH_BYTES = 1 << 20,
    FIRST_BYTES = 4096, /* size of the first message, including its head */
    PART_BYTES = 1 << 30,
    SPIN_NS = 1000 * 1000, /* how long a waiting rank polls before it also sleeps */
    NAP_NS = 50 * 1000,
};

typedef struct envelope {
    tsr_message_head head;
    unsigned char bytes[FIRST_BYTES - sizeof(tsr_message_head)];
} envelope;
static_assert(sizeof(envelope) == FIRST_BYTES, "no padding");

typedef struct flow {
    envelope *outgoing, *incoming; /* owned by `envelopes` */
    tsr_mpi_request send, receive;
    size_t sent, received; /* bytes passed to MPI */
    bool sending, receiving, head_seen;
} flow;

typedef struct mpi {
    tsr_transport base;           /* must be the first member */
    const tsr_mpi_module *module; /* borrowed; stays open until the process ends */
    tsr_mpi_world *world;
    envelope *envelopes; /* owned; two per rank */
    flow *flows;         /* owned; one per rank */
    _Atomic int failed;  /* code of the first failure, set by any thread; TSR_OK: none */
} mpi;

static tsr_result check(tsr_ctx *ctx, const tsr_mpi_module *module, int code, const char *call) {
    char text[TSR_MPI_TEXT_MAX];
    if (code == 0) return TSR_SUCCESS;
    module->describe(code, text);
    FAIL(ctx, TSR_RANK, "%s: %s", call, text);
}

static size_t part_of(size_t left) { return left < PART_BYTES ? left : PART_BYTES; }

static tsr_result begin_send(tsr_ctx *ctx, mpi *m, uint32_t to,
                             const tsr_transport_segment *segment, const tsr_message_head *about) {
    flow *f = &m->flows[to];
    size_t first = segment->size_bytes < sizeof f->outgoing->bytes ? segment->size_bytes
                                                                   : sizeof f->outgoing->bytes;
    f->outgoing->head = *about;
    f->outgoing->head.total_bytes = segment->size_bytes;
    if (first) memcpy(f->outgoing->bytes, segment->bytes, first);
    f->sent = first;
    return check(ctx, m->module,
                 m->module->send(m->world, f->outgoing, (int)(sizeof(tsr_message_head) + first),
                                 (int)to, &f->send),
                 "MPI_Isend");
}

static tsr_result continue_sending(tsr_ctx *ctx, mpi *m, uint32_t to,
                                   const tsr_transport_segment *segment, bool *moved) {
    flow *f = &m->flows[to];
    bool done = false;
    if (!f->sending) return TSR_SUCCESS;
    TRY(ctx, check(ctx, m->module, m->module->test(&f->send, &done, NULL), "MPI_Test"));
    if (!done) return TSR_SUCCESS;
    *moved = true;
    if (f->sent == segment->size_bytes) {
        f->sending = false;
        return TSR_SUCCESS;
    }
    const unsigned char *bytes = (const unsigned char *)segment->bytes + f->sent;
    size_t part = part_of(segment->size_bytes - f->sent);
    f->sent += part;
    return check(ctx, m->module, m->module->send(m->world, bytes, (int)part, (int)to, &f->send),
                 "MPI_Isend");
}

static tsr_result continue_receiving(tsr_ctx *ctx, mpi *m, uint32_t from,
                                     const tsr_transport_segment *segment,
                                     const tsr_message_head *about, bool *moved) {
    flow *f = &m->flows[from];
    bool done = false;
    int count = 0;
    if (!f->receiving) return TSR_SUCCESS;
    TRY(ctx, check(ctx, m->module, m->module->test(&f->receive, &done, &count), "MPI_Test"));
    if (!done) return TSR_SUCCESS;
    *moved = true;
    if (!f->head_seen) {
        f->head_seen = true;
        if ((size_t)count < sizeof(tsr_message_head))
            FAIL(ctx, TSR_RANK, "rank %u sent %d byte%s, not even a head of %zu", from, count,
                 TSR_PLURAL(count), sizeof(tsr_message_head));
        TRY(ctx, tsr_message_compare(ctx, &m->base, from, &f->incoming->head, about,
                                     segment->size_bytes));
        size_t first = (size_t)count - sizeof(tsr_message_head);
        if (first > segment->size_bytes)
            FAIL(ctx, TSR_RANK, "rank %u sends more than the %zu byte%s it began", from,
                 segment->size_bytes, TSR_PLURAL(segment->size_bytes));
        if (first) memcpy(segment->bytes, f->incoming->bytes, first);
        f->received = first;
    }
    if (f->received == segment->size_bytes) {
        f->receiving = false;
        return TSR_SUCCESS;
    }
    unsigned char *bytes = (unsigned char *)segment->bytes + f->received;
    size_t part = part_of(segment->size_bytes - f->received);
    f->received += part;
    return check(ctx, m->module,
                 m->module->receive(m->world, bytes, (int)part, (int)from, &f->receive),
                 "MPI_Irecv");
}

static tsr_result begin(tsr_ctx *ctx, mpi *m, const tsr_exchange *exchange,
                        const tsr_message_head *about) {
    for (uint32_t r = 0; r < m->base.rank_count; r++) {
        flow *f = &m->flows[r];
        f->sending = r != m->base.rank && exchange->sends[r].active;
        f->receiving = r != m->base.rank && exchange->receives[r].active;
        f->head_seen = false;
        if (f->receiving)
            TRY(ctx,
                check(ctx, m->module,
                      m->module->receive(m->world, f->incoming, FIRST_BYTES, (int)r, &f->receive),
                      "MPI_Irecv"));
    }
    for (uint32_t i = 1; i < m->base.rank_count; i++) {
        uint32_t r = (m->base.rank + i) % m->base.rank_count;
        if (m->flows[r].sending) TRY(ctx, begin_send(ctx, m, r, &exchange->sends[r], about));
    }
    return TSR_SUCCESS;
}

static uint32_t find_awaited(const mpi *m) {
    uint32_t rank = 0;
    while (!m->flows[rank].sending && !m->flows[rank].receiving) rank++;
    return rank;
}

/* Called when nothing has changed for some time. */
static tsr_result wait_a_little(tsr_ctx *ctx, tsr_transport *t, const tsr_message_head *about,
                                uint64_t waited_ns) {
    const mpi *m = (const mpi *)t;
    if (m->failed) FAIL(ctx, TSR_RANK, "rank %u has failed in another thread", m->base.rank);
    if (m->base.deadline_ns && waited_ns >= m->base.deadline_ns)
        return tsr_message_fail_late(ctx, &m->base, find_awaited(m), about);
    if (waited_ns < SPIN_NS) return TSR_SUCCESS;
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    return TSR_SUCCESS;
}

static tsr_result advance(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange,
                          const tsr_message_head *about, bool *out_moved, bool *out_pending) {
    mpi *m = (mpi *)t;
    for (uint32_t r = 0; r < t->rank_count; r++) {
        TRY(ctx, continue_sending(ctx, m, r, &exchange->sends[r], out_moved));
        TRY(ctx, continue_receiving(ctx, m, r, &exchange->receives[r], about, out_moved));
        *out_pending |= m->flows[r].sending || m->flows[r].receiving;
    }
    return TSR_SUCCESS;
}

static tsr_result mpi_exchange(tsr_ctx *ctx, tsr_transport *t, const tsr_exchange *exchange) {
    static const tsr_message_steps steps = {advance, wait_a_little};
    tsr_message_head about = tsr_message_begin(t, exchange->operation);
    TRY(ctx, begin(ctx, (mpi *)t, exchange, &about));
    return tsr_message_run(ctx, t, &steps, exchange, &about);
}

/* The job ends when this rank closes its end: until then it can report its error. */
static void mpi_fail(tsr_transport *t, tsr_code code, const char *text) {
    int none = TSR_OK;
    (void)text;
    atomic_compare_exchange_strong(&((mpi *)t)->failed, &none, (int)code);
}

static void mpi_close(tsr_transport *t) {
    mpi *m = (mpi *)t;
    if (m->failed) m->module->abort(m->failed);
    m->module->close(m->world);
    if (!m->base.is_secondary) m->module->finish();
    free(m->envelopes);
    free(m->flows);
    free(t->scratch);
    free(m);
}

static const tsr_transport_kind mpi_kind = {
    .name = "MPI", .exchange = mpi_exchange, .fail = mpi_fail, .close = mpi_close};

static tsr_result use_world(tsr_ctx *ctx, mpi *m) {
    int rank = 0, count = 0;
    TRY(ctx, check(ctx, m->module, m->module->open(&m->world, &rank, &count),
                   "a communicator of all processes"));
    if (count > TSR_TRANSPORT_RANKS_MAX)
        FAIL(ctx, TSR_USAGE, "%d ranks were started; 1 to %d are supported", count,
             TSR_TRANSPORT_RANKS_MAX);
    m->base.rank = (uint32_t)rank;
    m->base.rank_count = (uint32_t)count;
    m->base.scratch = aligned_alloc(64, SCRATCH_BYTES);
    m->base.scratch_bytes = SCRATCH_BYTES;
    m->envelopes = calloc((size_t)count, 2 * sizeof *m->envelopes);
    m->flows = calloc((size_t)count, sizeof *m->flows);
    if (!m->base.scratch || !m->envelopes || !m->flows)
        FAIL(ctx, TSR_MEMORY, "no memory for a transport of %d ranks", count);
    for (int r = 0; r < count; r++) {
        m->flows[r].outgoing = &m->envelopes[2 * r];
        m->flows[r].incoming = &m->envelopes[2 * r + 1];
    }
    return TSR_SUCCESS;
}

static tsr_result open_end(tsr_ctx *ctx, const tsr_mpi_module *module, uint64_t deadline_ns,
                           bool is_secondary, mpi **out_end) {
    mpi *m = calloc(1, sizeof *m);
    if (!m) FAIL(ctx, TSR_MEMORY, "no memory for a transport");
    m->base.kind = &mpi_kind;
    m->base.deadline_ns = deadline_ns;
    m->base.is_secondary = is_secondary;
    m->module = module;
    *out_end = m;
    return use_world(ctx, m);
}

/* ---- the module ---- */

/* Where a build and an installation have it: beside this code, in the folder `tessera` of the
 * libraries, or at the configured path. */
static const char *const near[] = {"", "tessera/", "../" TSR_LIBDIR "/tessera/"};

/* Writes the folder of the program or library that contains this code, with a slash at the end. */
static void find_folder(char out_folder[PATH_MAX]) {
    Dl_info info;
    out_folder[0] = 0;
    if (!dladdr((const void *)&mpi_kind, &info) || !info.dli_fname) return;
    char *whole = realpath(info.dli_fname[0] == '/' ? info.dli_fname : "/proc/self/exe", NULL);
    if (whole && strlen(whole) < PATH_MAX) {
        char *slash = strrchr(whole, '/');
        slash[1] = 0;
        memcpy(out_folder, whole, strlen(whole) + 1);
    }
    free(whole);
}

static void *open_near(char out_error[TSR_MPI_TEXT_MAX]) {
    char folder[PATH_MAX], path[PATH_MAX + 64];
    find_folder(folder);
    for (size_t i = 0; i <= TSR_COUNT(near); i++) {
        if (i < TSR_COUNT(near))
            snprintf(path, sizeof path, "%s%s%s", folder, near[i], TSR_MPI_MODULE_FILE);
        else
            snprintf(path, sizeof path, "%s/tessera/%s", TSR_LIBDIR_WHOLE, TSR_MPI_MODULE_FILE);
        if (access(path, F_OK) != 0) continue;
        void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (!library) snprintf(out_error, TSR_MPI_TEXT_MAX, "%s", dlerror());
        return library;
    }
    snprintf(out_error, TSR_MPI_TEXT_MAX,
             "there is no %s in '%s' and in '%s/tessera'; it is built with -Dmpi=enabled",
             TSR_MPI_MODULE_FILE, folder, TSR_LIBDIR_WHOLE);
    return NULL;
}

static tsr_result open_module(tsr_ctx *ctx, const char *path, const tsr_mpi_module **out_module) {
    char error[TSR_MPI_TEXT_MAX] = "";
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : open_near(error);
    if (!library && path) snprintf(error, sizeof error, "%s", dlerror());
    if (!library) FAIL(ctx, TSR_USAGE, "MPI cannot be used: %s", error);
    const tsr_mpi_module *module = dlsym(library, TSR_MPI_MODULE_SYMBOL);
    if (!module)
        FAIL(ctx, TSR_USAGE, "MPI cannot be used: '%s' is not a module of Tessera",
             path ? path : TSR_MPI_MODULE_FILE);
    if (module->version != TSR_MPI_MODULE_VERSION)
        FAIL(ctx, TSR_USAGE, "MPI cannot be used: %s has version %u; expected %d",
             TSR_MPI_MODULE_FILE, module->version, TSR_MPI_MODULE_VERSION);
    *out_module = module;
    return TSR_SUCCESS;
}

static tsr_result start(tsr_ctx *ctx, const tsr_mpi_module *module) {
    enum tsr_mpi_state state = TSR_MPI_STARTED;
    char library[TSR_MPI_TEXT_MAX];
    TRY(ctx, check(ctx, module, module->start(&state), "MPI_Init_thread"));
    if (state == TSR_MPI_TWICE) FAIL(ctx, TSR_USAGE, "MPI was started before in this process");
    if (state == TSR_MPI_STARTED) return TSR_SUCCESS;
    module->describe_library(library);
    FAIL(ctx, TSR_USAGE, "this MPI cannot serve several threads of a process: %s", library);
}

tsr_result tsr_mpi_open(tsr_ctx *ctx, const tsr_mpi_options *options,
                        tsr_transport **out_transport) {
    tsr_mpi_options o;
    const tsr_mpi_module *module = NULL;
    mpi *m = NULL, *secondary = NULL;
    TRY(ctx, tsr_options_copy(ctx, "tsr_mpi_options", options, &o, sizeof o));
    TRY(ctx, open_module(ctx, o.module, &module));
    TRY(ctx, start(ctx, module));
    tsr_result result = open_end(ctx, module, o.deadline_ns, false, &m);
    if (!result.code) result = open_end(ctx, module, o.secondary_deadline_ns, true, &secondary);
    if (m && secondary) m->base.secondary = &secondary->base;
    if (result.code && m) tsr_transport_close(&m->base);
    if (result.code && !m) module->finish();
    if (!result.code) *out_transport = &m->base;
    return result;
}
