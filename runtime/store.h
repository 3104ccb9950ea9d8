/* SPDX-License-Identifier: Apache-2.0
 *
 * The state store: immutable generations of parameters and optimizer state in a directory, and the
 * commit protocol that never loses one (docs/state-store.md). One run holds a store at a time: a
 * process, or several ranks, each of which writes and verifies its part of every generation.
 *
 * Of several ranks all call open, load, reserve, save and close, with the same options, tensors and
 * positions and in the same order; what one of them is told of saves, all are. An error of one is
 * to be told to the others by tsr_transport_fail.
 */
#ifndef TSR_RUNTIME_STORE_H
#define TSR_RUNTIME_STORE_H

#include "runtime/base/arena.h"
#include "runtime/base/hash.h"
#include "runtime/base/tensor.h"

typedef struct tsr_transport tsr_transport;

/* The seven integers that resume a run, and the data that it is trained with. */
typedef struct tsr_position {
    uint64_t seed;   /* 32 bit used */
    uint64_t step;   /* steps done */
    uint64_t sample; /* global index of the next sample */
    uint64_t virtual_ranks;
    uint64_t shuffle_version;
    /* Epoch `epoch_base` of the data begins at the global index `epoch_base_sample`: both are 0
     * until a run goes on with other data. */
    uint64_t epoch_base, epoch_base_sample;
    uint64_t rows;   /* of the data; 0: not known */
    tsr_digest data; /* of the data's bytes (docs/state-store.md); zero: not known */
} tsr_position;

typedef struct tsr_generation {
    uint64_t number, epoch;
    tsr_position position;
    tsr_digest bundle_hash, state_hash, manifest_hash;
} tsr_generation;

/* State hash: SHA-256 over (name, dtype, shape, tensor digest) of the tensors sorted by name;
 * tensors as tsr_hash_tree of their bytes. The encoding hashed is fixed in docs/state-store.md. */
tsr_digest tsr_state_hash(const tsr_tensor *tensors, size_t tensor_count);
/* The same of tensors whose digests are known, by tensor; their data is not read. NULL: as above.
 */
tsr_digest tsr_state_hash_digests(const tsr_tensor *tensors, const tsr_digest *digests,
                                  size_t tensor_count);

typedef struct tsr_store tsr_store;

/* How what lies at `data`, within a tensor, is read where its memory alone does not hold it: the
 * bytes are at *out_bytes until the same reader asks again. Readers have numbers from 0 on, and are
 * different threads. */
enum { TSR_STORE_READERS_MAX = 9, TSR_STORE_READ_BYTES_MAX = 4 << 20 };
typedef struct tsr_store_source {
    tsr_result (*read)(tsr_ctx *ctx, void *user, unsigned reader, const void *data,
                       size_t size_bytes, const void **out_bytes);
    void *user; /* borrowed */
} tsr_store_source;

typedef struct tsr_store_options {
    size_t size_bytes;      /* sizeof(tsr_store_options) */
    const char *directory;  /* created if absent, with its parents */
    tsr_digest bundle_hash; /* a store of another bundle is TSR_MISMATCH */
    uint32_t keep;          /* good generations that stay, 2 … 10000 */
    bool allow_network_fs;
    bool allow_inexact;   /* a state of other numerics goes on, with a warning */
    const char *region;   /* stored in tokens: at most 255 bytes; NULL: "" */
    const char *numerics; /* what decides the bits ("portable+fma.2"), stored in tokens; a state of
                             another is TSR_MISMATCH. At most 255 bytes; NULL: not checked, "" */
    /* What will be loaded, so that it is read once; NULL: room for a state is taken instead. Their
     * data holds no state after an opening that fails, or that finds none. Used while opening. */
    const tsr_tensor *tensors;
    size_t tensor_count;
    /* Of several ranks, by tensor: in how many parts ranks have it, see tsr_spread in
     * runtime/store/reshard.h; the tensor's data is what this rank has of it, its shape that of the
     * whole. 0, or NULL: each rank has all. Borrowed until memory is reserved, and by tensor of
     * each call: opening, loading, reserving. */
    const uint32_t *tensor_parts;
    tsr_store_source source; /* of what is saved; read NULL: it lies at `data` */
    bool finite; /* a state with a float that is NaN or infinite is not saved, and told */
    /* Gets each line of the event log (docs/state-store.md), from one thread at a time; NULL: none
     * is wanted. */
    void (*event)(void *user, const char *line);
    void *event_user; /* borrowed */
    /* Borrowed until the store is closed, and used by nobody else; NULL: one process alone. Several
     * ranks name the tensors they will load. */
    tsr_transport *transport;
} tsr_store_options;

typedef enum tsr_resume_mode {
    TSR_RESUME_AUTO,  /* highest generation that verifies; nothing there: start fresh */
    TSR_RESUME_NEVER, /* start fresh; a non-empty store is TSR_STATE */
    TSR_RESUME_EXACT, /* this generation, even if the newest records do not lead to it, when it
                         verifies; or TSR_STATE, listing those there are */
} tsr_resume_mode;

typedef struct tsr_recovery {
    bool found;                /* false: nothing there, start fresh */
    tsr_generation generation; /* of what goes on, when found */
    uint32_t damaged_count; /* committed records that did not verify; each was logged as an error */
    uint32_t uncommitted_count; /* unfinished saves set aside: normal after a crash */
} tsr_recovery;

/* Opens, locks (TSR_LOCKED when another process holds it), publishes a new EPOCH, recovers with
 * every chunk verified, publishes BASE. All damaged: TSR_STATE. */
TSR_RESULT tsr_store_open(tsr_ctx *ctx, const tsr_store_options *options, tsr_resume_mode mode,
                          uint64_t generation, tsr_store **out_store, tsr_recovery *out_recovery);
void tsr_store_close(tsr_ctx *ctx, tsr_store *store); /* waits for a save under way; accepts NULL */

/* The recovered generation into caller memory: each tensor is found by name; another dtype or
 * shape, a missing or an extra one is TSR_MISMATCH with both values. */
TSR_RESULT tsr_store_load(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                          size_t tensor_count);

/* Read-only use without lock or epoch: the newest good generation (mode as above) into an arena.
 * bundle_hash may be NULL: of any bundle. An empty store is found = false and no tensors; a
 * directory that does not exist is TSR_IO. Tensors ascend by name. */
TSR_RESULT tsr_store_read(tsr_ctx *ctx, const char *directory, const tsr_digest *bundle_hash,
                          tsr_resume_mode mode, uint64_t generation, tsr_arena *arena,
                          tsr_recovery *out_recovery, tsr_tensor **out_tensors,
                          size_t *out_tensor_count);

/* Reserves the staging memory for asynchronous saves of these tensors, whose data stays where it is
 * until the store is closed; they are copied in this order: best is that in which they are written
 * next. Called once, before the first save. Names are unique, at most 255 bytes, without control
 * characters; TSR_USAGE otherwise. */
TSR_RESULT tsr_store_reserve(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                             size_t tensor_count);
/* Memory that was reserved: a copy of this rank's part, and what is read back with. */
uint64_t tsr_store_get_kept_bytes(const tsr_store *store);
/* Copies the tensors to staging and returns; a thread hashes, writes and commits. If a save is
 * still under way it is waited for first. Failures are reported by tsr_store_poll/wait. No
 * allocation. Refused once no further commit is allowed: TSR_LOCKED (fenced), TSR_SAVE (outcome
 * unknown). */
TSR_RESULT tsr_store_save(tsr_ctx *ctx, tsr_store *store, const tsr_position *position);
/* The same in two parts, so that what only reads the tensors need not wait: from begin until
 * wait_copied has returned, other threads copy them, and nobody may write them. `data`: one tensor
 * alone, by where it lies, which may then be written; memory of none of them, or NULL: all. */
TSR_RESULT tsr_store_save_begin(tsr_ctx *ctx, tsr_store *store, const tsr_position *position);
void tsr_store_wait_copied(tsr_store *store, const void *data); /* at once where all is copied */

/* Of a state's tensors the first by name that is not finite, and where. */
typedef struct tsr_nonfinite {
    bool found;
    const char *tensor; /* borrowed from the store */
    uint64_t element, step;
    double value; /* of NaN without sign */
} tsr_nonfinite;

typedef struct tsr_save_status {
    uint64_t committed_count, failed_count;
    uint32_t failed_in_a_row;
    tsr_generation last_committed; /* valid if committed_count > 0 */
    bool outcome_unknown; /* directory sync failed after publishing: no further commit, exit */
    bool fenced;          /* another run took the store over: no further commit, exit */
    const char *lost;     /* what was seen of a rank that is: no further commit, exit; else NULL */
    tsr_nonfinite nonfinite; /* why the last state was not saved; known once it is copied */
    double stall_seconds,
        persist_seconds; /* of the last save: what callers waited; what the thread took */
} tsr_save_status;
tsr_save_status tsr_store_poll(tsr_store *store); /* logs each new failure once */
tsr_save_status tsr_store_wait(tsr_store *store); /* until no save is under way */

/* Reads everything, changes nothing. One line per finding goes to `report`. TSR_STATE if nothing
 * good is left or something committed is damaged. */
typedef void (*tsr_fsck_report_fn)(void *user, const char *line);
TSR_API TSR_RESULT tsr_store_fsck(tsr_ctx *ctx, const char *directory, tsr_fsck_report_fn report,
                                  void *user);
/* A line for each generation that can be resumed, newest first: "generation N epoch N step N seed N
 * bytes N state HEX good", or "generation N epoch N damaged: …"; then those that are good but not
 * reached from the newest records ("…, ignored unless …"); then one with the counts. Reads
 * manifests and the sizes of segments, with `verify` all data. Changes nothing. TSR_STATE if
 * something committed is damaged. */
TSR_API TSR_RESULT tsr_store_list(tsr_ctx *ctx, const char *directory, bool verify,
                                  tsr_fsck_report_fn report, void *user);
/* The same as JSON, an object a line (schemas/token.schema.json): each generation's resilience
 * token, or what is damaged about it; then the counts. What tsr_store_list says besides is
 * logged. */
TSR_API TSR_RESULT tsr_store_list_json(tsr_ctx *ctx, const char *directory, bool verify,
                                       tsr_fsck_report_fn report, void *user);
/* The tensors of a generation (mode and number as in tsr_store_open, without TSR_RESUME_NEVER) to a
 * safetensors file, whole or not at all; metadata: generation, epoch, the seven integers, bundle,
 * state and manifest hash. Read as tsr_store_read does, of whatever bundle; TSR_STATE if nothing
 * was committed yet. */
TSR_API TSR_RESULT tsr_store_export(tsr_ctx *ctx, const char *directory, tsr_resume_mode mode,
                                    uint64_t generation, const char *path,
                                    tsr_recovery *out_recovery);
/* Takes the store as a run does (lock, epoch, BASE), of whatever bundle, and removes all but the
 * `keep` newest generations (2 … 10000), once so many were verified. One line for each that was
 * removed, then the counts. TSR_STATE, and nothing removed, if a damaged one was met on the way;
 * TSR_LOCKED while another process holds it. */
TSR_API TSR_RESULT tsr_store_prune(tsr_ctx *ctx, const char *directory, uint32_t keep,
                                   bool allow_network_fs, tsr_fsck_report_fn report, void *user);

#endif
