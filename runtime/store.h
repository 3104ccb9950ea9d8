/* SPDX-License-Identifier: Apache-2.0
 *
 * The state store: immutable generations of parameters and optimizer state in a directory, and the
 * commit protocol that never loses one (docs/state-store.md). Only one run uses a store at a time:
 * a process, or several ranks, where each rank writes and verifies its part of every generation.
 *
 * With several ranks, every rank calls open, load, reserve, save and close in the same order, with
 * the same options, tensors and positions. All ranks get the same results of saves. A rank that
 * fails must tell the other ranks with tsr_transport_fail.
 */
#ifndef TSR_RUNTIME_STORE_H
#define TSR_RUNTIME_STORE_H

#include "runtime/base/arena.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/identity.h"
#include "runtime/base/tensor.h"
#include "tessera/state.h"

typedef struct tsr_transport tsr_transport;

/* State hash: SHA-256 over (name, dtype, shape, tensor digest) of the tensors sorted by name; the
 * digest of a tensor is the tsr_hash_tree of its bytes. The hashed encoding is fixed in
 * docs/state-store.md. */
tsr_digest tsr_state_hash(const tsr_tensor *tensors, size_t tensor_count);
/* The same for tensors with known digests (one per tensor); their data is not read. NULL: computes
 * the digests as above. */
tsr_digest tsr_state_hash_digests(const tsr_tensor *tensors, const tsr_digest *digests,
                                  size_t tensor_count);

typedef struct tsr_store tsr_store;

/* tsr_best.generation of a position that is saved: the state itself is the best one. */
#define TSR_BEST_ITSELF UINT64_MAX

/* The program whose states a run resumes. A state belongs to the program if the program digests
 * are equal or, if one of them is not known, if the bundles are equal. Otherwise TSR_MISMATCH with
 * both values.
 */
typedef struct tsr_store_program {
    tsr_digest bundle_hash;
    const tsr_identity *identity; /* borrowed; NULL: not known */
    const char *advice;           /* borrowed; appended to the refusal of another program's state,
                                     "; run …"; NULL: nothing */
    bool tells_changes;           /* a notice names each hyper-parameter that differs, unless the
                                     stored value is one that a run set */
    tsr_identity *recovered;      /* tsr_store_read: receives the identity of the generation, in the
                                     arena; NULL: not wanted */
} tsr_store_program;

/* A callback that reads bytes of a tensor that may not be in memory in full. The address of the
 * tensor is `data`. The bytes are at *out_bytes until the same reader calls again. Readers are
 * numbered from 0 and are different threads. */
enum { TSR_STORE_READERS_MAX = 9, TSR_STORE_READ_BYTES_MAX = 4 << 20 };
typedef struct tsr_store_source {
    tsr_result (*read)(tsr_ctx *ctx, void *user, unsigned reader, const void *data,
                       size_t size_bytes, const void **out_bytes);
    void *user; /* borrowed */
} tsr_store_source;

typedef struct tsr_store_options {
    size_t size_bytes;      /* sizeof(tsr_store_options) */
    const char *directory;  /* created if absent, with its parents */
    tsr_digest bundle_hash; /* a store of another program is TSR_MISMATCH: see tsr_store_program */
    const tsr_identity *identity; /* copied; NULL: not known */
    const char *advice;           /* as in tsr_store_program; borrowed while the store is opened */
    uint32_t keep;                /* number of good generations that are kept, 2 … 10000 */
    bool allow_network_fs;
    bool allow_inexact;   /* a state with other numerics is resumed, with a warning */
    const char *region;   /* stored in tokens: at most 255 bytes; NULL: "" */
    const char *numerics; /* name of the numerics that determine the bits ("portable+fma.2"), stored
                             in tokens; a state with other numerics is TSR_MISMATCH. At most 255
                             bytes; NULL: not checked, "" */
    /* The tensors that will be loaded, so that the state is read only once; NULL: the store
     * allocates memory for the state instead. If the store cannot be opened or is empty, their data
     * is undefined. Used only during opening. */
    const tsr_tensor *tensors;
    size_t tensor_count;
    /* The number of parts into which the ranks split each tensor, see tsr_spread in
     * runtime/store/reshard.h. The data of the tensor is this rank's part; its shape is the full
     * shape. 0, or NULL: each rank has the full tensor. Borrowed until memory is reserved. Indexed
     * by the tensors of each call: opening, loading, reserving. */
    const uint32_t *tensor_parts;
    tsr_store_source source; /* reads the tensors that are saved; read NULL: reads directly from
                                `data` */
    bool finite;             /* a state with a NaN or infinite float is not saved, but reported */
    /* Gets each line of the event log (docs/state-store.md), from one thread at a time; NULL: no
     * log. */
    void (*event)(void *user, const char *line);
    void *event_user; /* borrowed */
    /* Borrowed until the store is closed, and used by nobody else; NULL: a single process. Several
     * ranks must give the tensors that they will load. */
    tsr_transport *transport;
} tsr_store_options;

/* Opens, locks (TSR_LOCKED when another process holds it), publishes a new EPOCH, recovers with
 * every chunk verified, publishes BASE. TSR_STATE if all generations are damaged. */
TSR_RESULT tsr_store_open(tsr_ctx *ctx, const tsr_store_options *options, tsr_resume_mode mode,
                          uint64_t generation, tsr_store **out_store, tsr_recovery *out_recovery);
void tsr_store_close(tsr_ctx *ctx, tsr_store *store); /* waits for a running save; accepts NULL */

/* Returns the program of the recovered generation and its hyper-parameters (borrowed): on the first
 * rank, else NULL, as if nothing was recovered. */
const tsr_identity *tsr_store_get_recovered(const tsr_store *store);
/* Later saves record these values, for the names of the identity that the store was opened with. */
void tsr_store_set_hyperparameters(tsr_store *store, const tsr_identity *identity);

/* Copies the recovered generation into the caller's memory. Tensors are found by name; a different
 * dtype or shape, or a missing or extra tensor, is TSR_MISMATCH with both values. */
TSR_RESULT tsr_store_load(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                          size_t tensor_count);

/* Read-only use without lock or epoch: reads the newest good generation (mode as above) into an
 * arena. `program` may be NULL: accepts any. An empty store gives found = false and no
 * tensors; a directory that does not exist is TSR_IO. Tensors ascend by name. */
TSR_RESULT tsr_store_read(tsr_ctx *ctx, const char *directory, const tsr_store_program *program,
                          tsr_resume_mode mode, uint64_t generation, tsr_arena *arena,
                          tsr_recovery *out_recovery, tsr_tensor **out_tensors,
                          size_t *out_tensor_count);

/* Reads what the generation that a run would resume says about the best one, by manifests and the
 * sizes of segments: all zero if there is no generation, or no directory. Changes nothing.
 * TSR_STATE as in tsr_store_open. */
TSR_RESULT tsr_store_peek_best(tsr_ctx *ctx, const char *directory, tsr_resume_mode mode,
                               uint64_t generation, tsr_best *out_best);

/* Reserves the staging memory for asynchronous saves of these tensors. The data of the tensors must
 * stay at the same address until the store is closed. The tensors are copied in this order; the
 * best order is the one in which they are overwritten next. Called once, before the first save.
 * Names are unique, at most 255 bytes, without control characters; TSR_USAGE otherwise. */
TSR_RESULT tsr_store_reserve(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                             size_t tensor_count);
/* Size of the reserved memory: a copy of this rank's part, and the buffers to read it back. */
uint64_t tsr_store_get_retained_bytes(const tsr_store *store);
/* Copies the tensors to staging and returns; a thread hashes, writes and commits. Waits first for a
 * save that is still running. Failures are reported by tsr_store_poll/wait. Allocates nothing.
 * Refused when no further commit is allowed: TSR_LOCKED (fenced), TSR_SAVE (outcome unknown). */
TSR_RESULT tsr_store_save(tsr_ctx *ctx, tsr_store *store, const tsr_position *position);
/* The same in two parts, so that code that only reads the tensors need not wait: from begin until
 * wait_copied returns, other threads copy the tensors, and nobody may write them. `data`: waits
 * only for the tensor at this address, which may then be written; NULL, or an address of no tensor:
 * waits for all. */
TSR_RESULT tsr_store_save_begin(tsr_ctx *ctx, tsr_store *store, const tsr_position *position);
void tsr_store_wait_copied(tsr_store *store, const void *data); /* at once if all is copied */

tsr_save_status tsr_store_poll(tsr_store *store); /* logs each new failure once */
tsr_save_status tsr_store_wait(tsr_store *store); /* waits until no save is running */

#endif
