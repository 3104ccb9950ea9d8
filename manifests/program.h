/* SPDX-License-Identifier: Apache-2.0
 *
 * The host program of one target: for each entry a flat list of commands over a table of buffers,
 * everything planned at build time. Plain structs <-> bytes (application/vnd.tessera.program.v1,
 * layout in manifests/README.md). The runtime walks it; it holds no code.
 */
#ifndef TSR_MANIFESTS_PROGRAM_H
#define TSR_MANIFESTS_PROGRAM_H

#include "manifests/config.h"
#include "runtime/base/arena.h"
#include "runtime/base/buffer.h"
#include "runtime/base/tensor.h"

enum {
    TSR_PROGRAM_VERSION = 9,
    TSR_PROGRAM_KERNELS_MAX = 1 << 22,
    TSR_PROGRAM_BUFFERS_MAX = 1 << 22,
    TSR_PROGRAM_COMMANDS_MAX = 1 << 22,
    TSR_PROGRAM_ARGUMENTS_MAX = 2048, /* of one launch */
    TSR_PROGRAM_REGIONS_MAX = 4096,   /* of one entry */
    TSR_PROGRAM_TEXT_MAX = 1024,      /* bytes of a buffer's name or a location */
    TSR_PROGRAM_ALIGN_BYTES = 64,     /* of offsets in the workspace, and of its size */
    TSR_PROGRAM_ALL_TO_ALL_MAX = 256, /* leaves */
    TSR_PROGRAM_DEPTH_MAX = 16,       /* loops and branches in each other */
    TSR_PROGRAM_UNDER_WAY_MAX = 256,  /* copies to the host's memory and back, at a time */
};
#define TSR_PROGRAM_TIMES_MAX (UINT64_C(1) << 48)      /* of a loop */
#define TSR_PROGRAM_LEAF_BYTES_MAX (UINT64_C(1) << 48) /* of LEAF, and of SUMS */

typedef enum tsr_space {
    TSR_SPACE_TENSOR = 1,    /* index: in config->tensors */
    TSR_SPACE_INPUT = 2,     /* index: in the entry's inputs */
    TSR_SPACE_OUTPUT = 3,    /* index: in the entry's outputs */
    TSR_SPACE_WORKSPACE = 4, /* offset_bytes: in the entry's workspace, a multiple of 64 */
    TSR_SPACE_PREPARED = 5,  /* index: of a buffer that outlives runs and that all entries share;
                                numbered as they first appear */
    TSR_SPACE_HOST = 6,      /* offset_bytes: in the entry's memory of the host, which a run has
                                beside the workspace; OFFLOAD writes it, PREFETCH reads it */
    /* Of an entry with leaves (below); offset_bytes as above, in memory of its own. */
    TSR_SPACE_LEAF = 16,        /* one copy for each leaf */
    TSR_SPACE_SUMS = 17,        /* a sum over leaves, and copies for the sums of subtrees */
    TSR_SPACE_LEAF_NUMBER = 18, /* a scalar i64, from 0; read only */
    TSR_SPACE_PART = 19,        /* index: of a tensor, of whose n elements it is the leaf's part, a
                                   vector of c = ceil(n / V): leaf i has those from i c on, and what
                                   is behind element n means nothing */
} tsr_space;

typedef struct tsr_program_buffer {
    tsr_space space;
    uint32_t index;        /* see tsr_space; 0 for WORKSPACE and HOST */
    uint64_t offset_bytes; /* WORKSPACE and HOST, and of an entry with leaves; else 0 */
    tsr_dtype dtype;
    tsr_shape shape;
    const char *name; /* of the value in the source, for messages; "" if it has none */
} tsr_program_buffer;

typedef enum tsr_opcode {
    TSR_OP_LAUNCH = 1, /* kernel, grid, arguments */
    TSR_OP_COPY = 2,   /* arguments[0] <- arguments[1], equal dtype and shape, no overlap */
    /* As LAUNCH, from one tensor to one PREPARED buffer: runs only where the tensor has changed
     * since the buffer was last written. */
    TSR_OP_PREPARE = 3,
    /* Of region `kernel`, whose commands stand between ENTER and LEAVE. LEAVE: the region fails
     * where a value of its arguments is not finite. */
    TSR_OP_ENTER = 4,
    TSR_OP_LEAVE = 5,
    /* Begins to copy the first half of the arguments to the second: to tensors, which are committed
     * with the state; and back. Done when an AWAIT of command `kernel` is. */
    TSR_OP_EXPORT = 6,
    TSR_OP_IMPORT = 7,
    TSR_OP_AWAIT = 8,
    /* Begin to copy, when all commands before them are done, and copy beside those behind them:
     * arguments[0] <- arguments[1], fields as those of COPY. Done when the AWAIT of command
     * `kernel` is, of which each has one. */
    TSR_OP_OFFLOAD = 9,   /* HOST <- WORKSPACE */
    TSR_OP_PREFETCH = 10, /* WORKSPACE <- HOST */
    TSR_OP_LAST = TSR_OP_PREFETCH,
    TSR_OP_EACH_LEAF = 16, /* grid: so many commands behind it run once for each leaf */
    TSR_OP_LEAF_SUM = 17, /* arguments[0] (SUMS) <- the sum over leaves of arguments[1]; kernel adds
                             two: (a, b) -> sum, which may lie over a or b */
    TSR_OP_LEAF_GATHER = 18, /* arguments[0] <- arguments[1] of all leaves, side by side */
    TSR_OP_COLLECTIVE = 19,  /* arguments[0] <- arguments[1]; kernel: number of collectives.def */
    /* Loops and branches: `kernel` says how many of the commands behind it are meant. */
    TSR_OP_REPEAT = 20, /* they run `grid` times, or until a STOP of theirs */
    TSR_OP_STOP = 21,   /* the loop at hand ends here where arguments[0], a scalar i1, is false */
    TSR_OP_WHEN = 22,   /* they run where arguments[0], a scalar i1, is true */
    TSR_OP_UNLESS = 23, /* and where it is false */
    /* arguments[0] <- arguments[1], one of them the slice of the other along dim 0 that the loop at
     * hand has come to; kernel 1: the last slice is the first */
    TSR_OP_TAKE = 24, /* a slice */
    TSR_OP_PUT = 25,  /* to a slice */
    TSR_OP_CONTROL_LAST = TSR_OP_PUT,
} tsr_opcode;

/* Leaves: a training entry of a program with V > 1 virtual ranks works on one V-th of the batch at
 * a time. Its data inputs are buffers of batch / V rows, those of the leaf at hand. Commands behind
 * EACH_LEAF may read and write LEAF and PART and read the leaf's inputs and number; others see none
 * of these. What a loop sums or gathers is there, on every rank, when it has ended; but a sum that
 * a COLLECTIVE (no slice) takes is exchanged by that alone, and nothing else reads it. */

/* An entry with loops and branches has no leaves, regions or collectives. What stands in a loop or
 * branch writes the workspace alone; STOP, TAKE and PUT stand in a loop, in no branch of it. */

/* Offloads: an entry with HOST has no leaves, loops and branches. Between an OFFLOAD or PREFETCH
 * and its AWAIT stand launches, copies, PREPARE and others of these alone; nothing writes what is
 * copied or touches where it goes. A PREFETCH reads a buffer of HOST as it was offloaded, once that
 * is awaited. */

/* Collectives stand outside of loops, among the V leaves: those of a rank give and take from LEAF,
 * whatever their number is. An all_gather of PART may stand in a loop, which gives what all ranks
 * have of the tensor when each leaf comes to it; that loop does not write the tensor. */
typedef enum tsr_collective_kind {
#define X(ID, number, name, from, to) TSR_COLLECTIVE_##ID = number,
#include "manifests/collectives.def"
#undef X
} tsr_collective_kind;
typedef enum tsr_collective_place {
    TSR_COLLECTIVE_PLACE_SUM, /* SUMS */
    TSR_COLLECTIVE_PLACE_OWN, /* LEAF; what an all_gather takes also PART, of any tensor */
    TSR_COLLECTIVE_PLACE_ALL, /* TENSOR, OUTPUT, WORKSPACE; what a slice takes also SUMS */
} tsr_collective_place;
typedef struct tsr_collective_row {
    const char *name;
    tsr_collective_kind kind;
    tsr_collective_place from, to;
} tsr_collective_row;
/* NULL where there is none. */
const tsr_collective_row *tsr_collective_get(uint32_t number);
const tsr_collective_row *tsr_collective_find(const char *name);
/* Elements of each part of `count` among positions: position p has those from p times this on, up
 * to the next or the end. */
uint64_t tsr_collective_part(uint64_t count, uint64_t positions);
/* A part is the whole's first dim divided by the positions, or a vector of as many elements as a
 * part has. */
bool tsr_collective_fits(const tsr_collective_row *row, const tsr_shape *to, const tsr_shape *from,
                         uint64_t positions);

typedef struct tsr_program_command {
    tsr_opcode opcode;
    uint32_t kernel; /* index in kernels; COPY: 0; of the others see tsr_opcode */
    uint64_t grid;   /* number of programs, 1 … 2^63 - 1; 0 where no kernel runs */
    uint64_t cost;   /* estimated floating-point operations, or bytes if larger; 0 unknown */
    uint32_t argument_count; /* LAUNCH: 1 … TSR_PROGRAM_ARGUMENTS_MAX; COPY, PREPARE: 2 */
    uint32_t written_from;   /* arguments[written_from …] are written (at least one), the
                                others only read; COPY: 0 */
    uint32_t *arguments;     /* indices of buffers */
    const char *location;    /* "digits.mlir:12:8", or "" */
} tsr_program_command;

typedef enum tsr_region_mode {
    TSR_REGION_IMPORTED = 0, /* stands in another entry: only imports name it */
    TSR_REGION_REPLAY = 1,   /* after a failure its commands run again */
    TSR_REGION_RESTART = 2,  /* after a failure the run goes on from the last committed state */
} tsr_region_mode;

typedef struct tsr_program_region {
    const char *name; /* unique in the entry */
    tsr_region_mode mode;
    uint32_t on_failure; /* 1 + the entry that runs once for each failure; 0: none */
} tsr_program_region;

typedef struct tsr_program_entry {
    const char *name;         /* of an entry of the config */
    uint64_t workspace_bytes; /* multiple of 64 */
    uint32_t buffer_count, command_count;
    tsr_program_buffer *buffers;
    tsr_program_command *commands;
    uint32_t region_count;
    tsr_program_region *regions;
    uint32_t on_recovery; /* 1 + the entry that runs once after a restart; 0: none */
} tsr_program_entry;

typedef struct tsr_program {
    uint32_t kernel_count, entry_count;
    const char **kernels; /* exported symbols of the code object: [A-Za-z_][A-Za-z0-9_]*, unique */
    tsr_program_entry *entries; /* in the order of config->entries, one for each */
} tsr_program;

/* Everything decode promises; errors have `code` and say entry, command or buffer, and both values:
 * indices, dtypes and shapes of bound buffers, ranges inside the workspace, read-only spaces
 * (INPUT, CONSTANT, and every tensor of an entry that is not TRAIN) never written, every output
 * written, limits; PREPARED buffers written by PREPARE alone, always the same way, and before they
 * are read; regions entered and left in order, exports behind their region, each awaited once, and
 * no tensor written before the last region is left. `config` must be valid. */
TSR_RESULT tsr_program_verify(tsr_ctx *ctx, const tsr_program *program, const tsr_config *config,
                              tsr_code code);

/* Writes without verifying against a config: call tsr_program_verify first. The bytes are a
 * function of the struct alone; *out_bytes is in the arena. */
TSR_RESULT tsr_program_encode(tsr_ctx *ctx, const tsr_program *program, tsr_arena *arena,
                              void **out_bytes, size_t *out_size_bytes);
/* Verifies everything, and that nothing stands after the end. Errors are TSR_CORRUPT (or
 * TSR_VERSION) and say what, where, both values. Memory taken is at most a small multiple of
 * size_bytes, whatever the bytes say. The struct lies in the arena. */
TSR_RESULT tsr_program_decode(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                              const tsr_config *config, tsr_arena *arena, tsr_program *out_program);

/* How a rank holds a tensor, as the buffers of all entries want it. */
typedef enum tsr_holding {
    TSR_HOLDING_WHOLE,
    TSR_HOLDING_PADDED, /* whole, with room for V parts */
    TSR_HOLDING_PARTS,  /* the parts of its leaves, side by side: no entry has the whole */
} tsr_holding;
/* out_holdings has a place for each tensor of the config. */
void tsr_program_find_holdings(const tsr_program *program, const tsr_config *config,
                               tsr_holding *out_holdings);
/* Bytes of one part of a tensor. */
uint64_t tsr_program_part_bytes(const tsr_config *config, size_t tensor);

/* What a buffer of an entry with leaves belongs to: to the leaf at hand, or to the parts that lie
 * with it (its position). A rank has V / W leaves and as many positions, those that follow each
 * other; its leaves need not do so where no command has to do with both. */
enum {
    TSR_OWNER_ALL = 0,
    TSR_OWNER_LEAF = 1,
    TSR_OWNER_POSITION = 2,
    TSR_OWNER_JOINED = 4, /* of all leaves, or of the parts of all positions */
};
/* out_owners has a place for each buffer. False where a command has to do with both, or has a
 * collective that goes from leaf to leaf. */
bool tsr_program_find_owners(const tsr_config *config, const tsr_config_entry *ports,
                             const tsr_program_entry *entry, uint8_t *out_owners);

/* The command writes arguments[written_from ... this), which are among those that it has, whatever
 * it says: a command that has not been verified may be asked, too. */
uint32_t tsr_program_written_end(const tsr_program_command *command);
/* The tensors that the entry writes are numbered 1, 2, … as it first does; out_numbers has a place
 * for each tensor of the config, zero before. */
void tsr_program_number_changes(const tsr_program_entry *entry, uint32_t *out_numbers);
/* Does some entry run it after a failure or a restart? Such entries take no input and hold no
 * region. */
bool tsr_program_is_handler(const tsr_program *program, uint32_t entry);
/* What is exported with each step of the entry: the last region's name, or "". */
const char *tsr_program_exported(const tsr_program_entry *entry);
/* Is it one of REPEAT ... PUT; does the entry have such a command? */
bool tsr_program_is_control(tsr_opcode opcode);
bool tsr_program_has_control(const tsr_program_entry *entry);
/* Is it an OFFLOAD or a PREFETCH? */
static inline bool tsr_program_is_offload(const tsr_program_command *command) {
    return command->opcode == TSR_OP_OFFLOAD || command->opcode == TSR_OP_PREFETCH;
}
/* Does something of it lie in the host's memory meanwhile? */
bool tsr_program_has_offloads(const tsr_program_entry *entry);
/* Private to this folder: an error about the command that `w` is at, a pointer to what has members
 * ctx, code, entry and index. */
#define TSR_PROGRAM_EXPECT(w, condition, ...)                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            tsr_result r_ = tsr_fail_((w)->ctx, (w)->code, 0, __FILE__, __LINE__, __VA_ARGS__);    \
            return tsr_error_prefix((w)->ctx, r_, "program: entry '%s': commands[%u]",             \
                                    (w)->entry->name, (w)->index);                                 \
        }                                                                                          \
    } while (0)
/* Private to this folder: the rules of regions, where those of each command hold. */
TSR_RESULT tsr_program_verify_regions(tsr_ctx *ctx, const tsr_program *program,
                                      const tsr_config *config, tsr_code code);
/* The same of collectives. */
TSR_RESULT tsr_program_verify_collectives(tsr_ctx *ctx, const tsr_program *program,
                                          const tsr_config *config, tsr_code code);
/* The same of loops and branches. */
TSR_RESULT tsr_program_verify_control(tsr_ctx *ctx, const tsr_program *program, tsr_code code);
/* The same of offloads; those of regions hold. */
TSR_RESULT tsr_program_verify_offloads(tsr_ctx *ctx, const tsr_program *program, tsr_code code);
/* The same: buffers that share bytes. */
bool tsr_program_overlap(const tsr_program_buffer *a, const tsr_program_buffer *b);
/* Data inputs of this entry are given to leaves a part each. */
bool tsr_program_splits(const tsr_config *config, const tsr_config_entry *entry,
                        const tsr_config_port *input);
/* What the buffers of HOST take together, or those of LEAF or SUMS in one copy: a multiple of 64.
 */
uint64_t tsr_program_space_bytes(const tsr_program_entry *entry, tsr_space space);

/* Bytes of a buffer. */
uint64_t tsr_program_buffer_size(const tsr_program_buffer *buffer);
/* Bytes of a device's memory that a command reads and writes: each of its arguments once, whole;
 * what lies in HOST is not among them. */
uint64_t tsr_program_command_bytes(const tsr_program_entry *entry,
                                   const tsr_program_command *command);
/* Bytes of the workspace that are in use at each command: a value is between the first and the last
 * command that touches it, an AWAIT touching what was copied, and values that follow each other in
 * one place count once. out_bytes has a place for each command; false without memory. */
bool tsr_program_live(const tsr_program_entry *entry, tsr_arena *arena, uint64_t *out_bytes);
/* PREPARED buffers of a verified program: their indices are below the count. */
uint32_t tsr_program_prepared_count(const tsr_program *program);
/* From {0} on: the first buffer of index 0, of index 1, …; NULL behind the last. */
typedef struct tsr_prepared_cursor {
    uint32_t entry, buffer, index;
} tsr_prepared_cursor;
const tsr_program_buffer *tsr_program_next_prepared(const tsr_program *program,
                                                    tsr_prepared_cursor *cursor);

/* A listing for people; `program` must be verified against `config`. Its form may change. */
void tsr_program_format(const tsr_program *program, const tsr_config *config, tsr_buffer *out);

#endif
