/* SPDX-License-Identifier: Apache-2.0
 *
 * The host program of one target: for each entry a flat list of commands over a table of buffers,
 * everything planned at build time. Plain structs <-> bytes (application/vnd.tessera.program.v1,
 * layout in manifests/README.md). The runtime walks it; it contains no code.
 */
#ifndef TSR_MANIFESTS_PROGRAM_H
#define TSR_MANIFESTS_PROGRAM_H

#include "manifests/config.h"
#include "runtime/base/arena.h"
#include "runtime/base/buffer.h"
#include "runtime/base/tensor.h"

enum {
    TSR_PROGRAM_VERSION = 11,
    TSR_PROGRAM_KERNELS_MAX = 1 << 22,
    TSR_PROGRAM_BUFFERS_MAX = 1 << 22,
    TSR_PROGRAM_COMMANDS_MAX = 1 << 22,
    TSR_PROGRAM_ARGUMENTS_MAX = 2048, /* arguments of one launch */
    TSR_PROGRAM_REGIONS_MAX = 4096,   /* regions of one entry */
    TSR_PROGRAM_TEXT_MAX = 1024,      /* bytes of a buffer's name or a location */
    TSR_PROGRAM_ALIGN_BYTES = 64,     /* alignment of offsets in the workspace, and of its size */
    TSR_PROGRAM_ALL_TO_ALL_MAX = 256, /* virtual ranks */
    TSR_PROGRAM_DEPTH_MAX = 16,       /* nesting depth of loops and branches */
    TSR_PROGRAM_IN_FLIGHT_MAX = 256,  /* concurrent copies to the host's memory and back */
    TSR_PROGRAM_SIZES_MAX = 4096,     /* sizes of one entry */
};
#define TSR_PROGRAM_TIMES_MAX (UINT64_C(1) << 48)       /* iterations of a loop */
#define TSR_PROGRAM_VRANK_BYTES_MAX (UINT64_C(1) << 48) /* bytes of VRANK, and of SUMS */

typedef enum tsr_space {
    TSR_SPACE_TENSOR = 1,    /* index: in config->tensors */
    TSR_SPACE_INPUT = 2,     /* index: in the entry's inputs */
    TSR_SPACE_OUTPUT = 3,    /* index: in the entry's outputs */
    TSR_SPACE_WORKSPACE = 4, /* offset_bytes: in the entry's workspace, a multiple of 64 */
    TSR_SPACE_PREPACKED = 5, /* index: number of a buffer that outlives runs and is shared by all
                               entries, in order of first use */
    TSR_SPACE_HOST = 6, /* offset_bytes: in the entry's host memory, which a run has in addition to
                           the workspace; OFFLOAD writes it, PREFETCH reads it */
    TSR_SPACE_SIZE = 7, /* index: a size of the entry, as a scalar i64; read only */
    /* Spaces of an entry with virtual ranks (below); offset_bytes as above, each in its own memory.
     */
    TSR_SPACE_VRANK = 16, /* one copy for each virtual rank */
    TSR_SPACE_SUMS =
        17, /* a sum over virtual ranks, with scratch copies for the sums of subtrees */
    TSR_SPACE_VRANK_NUMBER = 18, /* a scalar i64, from 0; read only */
    /* index: a tensor of n elements. The buffer is the virtual rank's part, a vector of c = ceil(n
     * / V) elements: virtual rank i has the elements from i c on; those past n are undefined. If V
     * divides dim 0, the part may also have the tensor's dims, dim 0 divided by V. */
    TSR_SPACE_PART = 19,
} tsr_space;

typedef struct tsr_program_buffer {
    tsr_space space;
    uint32_t index; /* see tsr_space; 0 for WORKSPACE and HOST */
    uint64_t
        offset_bytes; /* WORKSPACE, HOST, and the spaces of an entry with virtual ranks; else 0 */
    tsr_dtype dtype;
    tsr_shape shape;
    const char *name; /* name of the value in the source, for messages; "" if it has no name */
    uint32_t rows; /* 1 + the size that dim 0 has in a call, at most shape.dims[0]; 0: that dim */
} tsr_program_buffer;

typedef enum tsr_opcode {
    TSR_OP_LAUNCH = 1, /* kernel, grid, arguments */
    TSR_OP_COPY = 2,   /* arguments[0] <- arguments[1], equal dtype and shape, no overlap */
    /* Like LAUNCH, from one tensor to one PREPARED buffer: runs only if the tensor has changed
     * since the buffer was last written. */
    TSR_OP_PREPARE = 3,
    /* Begin and end of region `kernel`. LEAVE: the region fails if a value of its arguments is not
     * finite. */
    TSR_OP_ENTER = 4,
    TSR_OP_LEAVE = 5,
    /* Start to copy the first half of the arguments to the second half: EXPORT to tensors, which
     * are committed with the state; IMPORT back. Complete when an AWAIT of command `kernel` is. */
    TSR_OP_EXPORT = 6,
    TSR_OP_IMPORT = 7,
    TSR_OP_AWAIT = 8,
    /* Start a copy after all earlier commands are done; it runs concurrently with the later ones:
     * arguments[0] <- arguments[1], fields as those of COPY. Complete when the AWAIT of command
     * `kernel` is; each has exactly one AWAIT. */
    TSR_OP_OFFLOAD = 9,   /* HOST <- WORKSPACE */
    TSR_OP_PREFETCH = 10, /* WORKSPACE <- HOST */
    /* Fails the run if an element of arguments[0] is not finite, or not between `grid` and `cost`,
     * the bits of two doubles. */
    TSR_OP_VERIFY = 11,
    TSR_OP_LAST = TSR_OP_VERIFY,
    TSR_OP_EACH_VRANK =
        16, /* grid: number of commands after it that run once for each virtual rank */
    TSR_OP_VRANK_SUM =
        17, /* arguments[0] (SUMS) <- the sum over virtual ranks of arguments[1]; kernel
              adds    two: (a, b) -> sum, which may be the same memory as a or b */
    TSR_OP_VRANK_GATHER = 18, /* arguments[0] <- arguments[1] of all virtual ranks, concatenated */
    TSR_OP_COLLECTIVE = 19,   /* arguments[0] <- arguments[1]; kernel: number in collectives.def */
    /* Loops and branches: `kernel` is the number of commands after it that belong to the range. */
    TSR_OP_REPEAT = 20, /* run the range `grid` times, or until its STOP */
    TSR_OP_STOP = 21,   /* leave the innermost loop if arguments[0], a scalar i1, is false */
    TSR_OP_WHEN = 22,   /* run the range if arguments[0], a scalar i1, is true */
    TSR_OP_UNLESS = 23, /* run the range if it is false */
    /* arguments[0] <- arguments[1], one of them the other's slice along dim 0 for the current
     * iteration of the innermost loop; kernel 1: in reverse order */
    TSR_OP_TAKE = 24, /* reads a slice */
    TSR_OP_PUT = 25,  /* writes a slice */
    TSR_OP_CONTROL_LAST = TSR_OP_PUT,
} tsr_opcode;

/* Virtual ranks: a training entry of a program with V > 1 virtual ranks works on one V-th of the
 * batch at a time. The data inputs of the loop are buffers of batch / V rows: the rows of the
 * current virtual rank. The commands of an EACH_VRANK loop may read and write VRANK and PART and
 * read the virtual rank's inputs and number; other commands must not access these. When the loop
 * has ended, its sums and gathered values are available on every rank. Exception: if a COLLECTIVE
 * (other than slice) takes a sum, only that command exchanges it, and nothing else reads it. */

/* An entry with loops and branches has no virtual ranks, regions or collectives. Commands in a loop
 * or branch write only to the workspace; STOP, TAKE and PUT are inside a loop and not inside one of
 * its branches. */

/* Offloads: an entry with HOST has no virtual ranks, loops and branches. Only launches, copies,
 * PREPARE, OFFLOAD, PREFETCH and AWAIT may come between an OFFLOAD or PREFETCH and its AWAIT; no
 * such command may write the source of the copy or access its destination. A PREFETCH reads a HOST
 * buffer as it was offloaded, after the AWAIT of that OFFLOAD. */

/* Collectives are outside of loops and run among the V virtual ranks: all virtual ranks of a rank
 * take part with their VRANK buffers. An all_gather of PART may be inside a loop: each virtual rank
 * gathers the tensor from all ranks when it reaches the command; that loop must not write the
 * tensor. */
typedef enum tsr_collective_kind {
#define X(ID, number, name, from, to) TSR_COLLECTIVE_##ID = number,
#include "manifests/program/collectives.def"
#undef X
} tsr_collective_kind;
typedef enum tsr_collective_location {
    TSR_COLLECTIVE_LOCATION_SUM, /* SUMS */
    TSR_COLLECTIVE_LOCATION_OWN, /* VRANK; for an all_gather also PART, of any tensor */
    TSR_COLLECTIVE_LOCATION_ALL, /* TENSOR, OUTPUT, WORKSPACE; for a slice also SUMS */
} tsr_collective_location;
typedef struct tsr_collective_row {
    const char *name;
    tsr_collective_kind kind;
    tsr_collective_location from, to;
} tsr_collective_row;
/* Return NULL if there is no such collective. */
const tsr_collective_row *tsr_collective_get(uint32_t number);
const tsr_collective_row *tsr_collective_find(const char *name);
/* Returns the number of elements of each part of `count` when split among positions: position p has
 * the elements from p times this number on, up to the next part or the end. */
uint64_t tsr_collective_part(uint64_t count, uint64_t positions);
/* Returns true if the shapes fit. A part is the whole with its first dim divided by the positions,
 * or a vector with the number of elements of a part. */
bool tsr_collective_fits(const tsr_collective_row *row, const tsr_shape *to, const tsr_shape *from,
                         uint64_t positions);

typedef struct tsr_program_command {
    tsr_opcode opcode;
    uint32_t kernel; /* index in kernels; COPY: 0; see tsr_opcode for the others */
    uint64_t grid;   /* number of programs, 1 … 2^63 - 1; 0 if no kernel runs */
    uint64_t cost;   /* estimated floating-point operations, or bytes if larger; 0 unknown */
    uint32_t argument_count;       /* LAUNCH: 1 … TSR_PROGRAM_ARGUMENTS_MAX; COPY, PREPARE: 2 */
    uint32_t written_from;         /* arguments[written_from …] are written (at least one), the
                                      others only read; COPY: 0 */
    uint32_t *arguments;           /* indices of buffers */
    const char *location;          /* "digits.mlir:12:8", or "" */
    uint32_t grid_size, cost_size; /* LAUNCH: 1 + the size that replaces grid or cost in a call, at
                                      most that number; 0: none does */
} tsr_program_command;

typedef enum tsr_region_mode {
    TSR_REGION_IMPORTED = 0, /* defined in another entry: only imports name it */
    TSR_REGION_REPLAY = 1,   /* its commands run again after a failure */
    TSR_REGION_RESTART = 2,  /* the run continues from the last committed state after a failure */
} tsr_region_mode;

typedef struct tsr_program_region {
    const char *name; /* unique in the entry */
    tsr_region_mode mode;
    uint32_t on_failure; /* 1 + the entry that runs once for each failure; 0: no entry */
} tsr_program_region;

/* Numbers that follow from the open dim of an entry. They are computed in order, when the dim of a
 * call differs from that of the last one; operands are earlier sizes. Buffers and grids are planned
 * for the largest dim, so memory and offsets are constant. */
typedef enum tsr_size_kind {
#define X(ID, number, name, operands) TSR_SIZE_##ID = number,
#include "manifests/program/sizes.def"
#undef X
} tsr_size_kind;

typedef struct tsr_program_size {
    tsr_size_kind kind;
    uint32_t a, b;   /* numbers of earlier sizes; 0 if the kind has fewer operands */
    uint64_t number; /* CONSTANT; else 0 */
} tsr_program_size;

/* The sizes of a call whose open dim is `dim`. */
void tsr_program_sizes(const tsr_program_size *sizes, uint32_t count, uint64_t dim,
                       uint64_t *out_sizes);
/* "DIM", "ADD"; NULL for an unknown kind. */
const char *tsr_size_kind_name(tsr_size_kind kind);
/* The number of its operands. */
uint32_t tsr_size_kind_operands(tsr_size_kind kind);

typedef struct tsr_program_entry {
    const char *name;         /* name of an entry of the config */
    uint64_t workspace_bytes; /* multiple of 64 */
    uint32_t buffer_count, command_count;
    tsr_program_buffer *buffers;
    tsr_program_command *commands;
    uint32_t region_count;
    tsr_program_region *regions;
    uint32_t on_recovery; /* 1 + the entry that runs once after a restart; 0: no entry */
    uint32_t size_count;  /* 0: the entry has no open dim */
    tsr_program_size *sizes;
} tsr_program_entry;

typedef struct tsr_program {
    uint32_t kernel_count, entry_count;
    const char **kernels; /* exported symbols of the code object: [A-Za-z_][A-Za-z0-9_]*, unique */
    tsr_program_entry *entries; /* one for each of config->entries, in that order */
} tsr_program;

/* Checks everything that tsr_program_decode guarantees; errors have `code` and name the entry, the
 * command or buffer, and both values: indices, dtypes and shapes of bound buffers, ranges inside
 * the workspace, read-only spaces (INPUT, CONSTANT, and every tensor of an entry that is not TRAIN)
 * never written, every output written, limits; PREPARED buffers written only by PREPARE, always
 * from the same tensor by the same kernel, and before they are read; regions entered and left in
 * order, exports after their region, each awaited once, and no tensor written before the last
 * region is left. `config` must be valid. */
TSR_RESULT tsr_program_verify(tsr_ctx *ctx, const tsr_program *program, const tsr_config *config,
                              tsr_code code);

/* Writes without verifying against a config: call tsr_program_verify first. The bytes depend only
 * on the struct; *out_bytes is in the arena. */
TSR_RESULT tsr_program_encode(tsr_ctx *ctx, const tsr_program *program, tsr_arena *arena,
                              void **out_bytes, size_t *out_size_bytes);
/* Verifies everything, and that there are no trailing bytes. Errors are TSR_CORRUPT (or
 * TSR_VERSION) and name the field, its index and both values. Allocates at most a small multiple of
 * size_bytes, for any input. The struct is in the arena. */
TSR_RESULT tsr_program_decode(tsr_ctx *ctx, const void *bytes, size_t size_bytes,
                              const tsr_config *config, tsr_arena *arena, tsr_program *out_program);

/* The form in which a rank stores a tensor, as required by the buffers of all entries. */
typedef enum tsr_holding {
    TSR_HOLDING_WHOLE,
    TSR_HOLDING_PADDED, /* whole, with room for V parts */
    TSR_HOLDING_PARTS,  /* the parts of its virtual ranks, concatenated: no entry uses the whole
                           tensor */
} tsr_holding;
/* Finds the holding of each tensor of the config; out_holdings has an element for each. */
void tsr_program_find_holdings(const tsr_program *program, const tsr_config *config,
                               tsr_holding *out_holdings);
/* Returns the bytes of one part of a tensor. */
uint64_t tsr_program_part_bytes(const tsr_config *config, size_t tensor);

/* The owner of a buffer in an entry with virtual ranks: the current virtual rank, or the position
 * whose part of a tensor it is. A rank has V / W virtual ranks and V / W consecutive positions; its
 * virtual ranks need not be consecutive if no command uses both kinds. */
enum {
    TSR_OWNER_ALL = 0,
    TSR_OWNER_VRANK = 1,
    TSR_OWNER_POSITION = 2,
    TSR_OWNER_JOINED = 4, /* values of all virtual ranks, or parts of all positions */
};
/* Finds the owners; out_owners has an element for each buffer. Returns false if a command uses both
 * kinds of owners, or is a collective between virtual ranks. */
bool tsr_program_find_owners(const tsr_config *config, const tsr_config_entry *ports,
                             const tsr_program_entry *entry, uint8_t *out_owners);

/* The command writes arguments[written_from … end). Returns `end`, which never exceeds
 * argument_count, even for a command that has not been verified. */
uint32_t tsr_program_written_end(const tsr_program_command *command);
/* Numbers the tensors that the entry writes 1, 2, … in the order of first writes; out_numbers has
 * an element for each tensor of the config, and must be zero before. */
void tsr_program_number_changes(const tsr_program_entry *entry, uint32_t *out_numbers);
/* Returns true if another entry runs this entry after a failure or a restart. Such entries have no
 * inputs and no regions. */
bool tsr_program_is_handler(const tsr_program *program, uint32_t entry);
/* Returns the effects of running the entry, a set of tsr_effect. */
uint32_t tsr_program_effects(const tsr_program *program, const tsr_config *config, uint32_t entry);
/* Returns the name of the region that is exported with each step of the entry: the last region, or
 * "". */
const char *tsr_program_exported(const tsr_program_entry *entry);
/* Return true if the opcode is one of REPEAT … PUT, or if the entry has such a command. */
bool tsr_program_is_control(tsr_opcode opcode);
bool tsr_program_has_control(const tsr_program_entry *entry);
/* True for an OFFLOAD or a PREFETCH. */
static inline bool tsr_program_is_offload(const tsr_program_command *command) {
    return command->opcode == TSR_OP_OFFLOAD || command->opcode == TSR_OP_PREFETCH;
}
/* The bounds of a VERIFY. */
void tsr_program_verify_bounds(const tsr_program_command *command, double *out_low,
                               double *out_high);
/* Returns true if the entry offloads values to the host's memory. */
bool tsr_program_has_offloads(const tsr_program_entry *entry);
/* Private to this folder: reports an error about the current command of `w`, a pointer to a struct
 * with members ctx, code, entry and index. */
#define TSR_PROGRAM_EXPECT(w, condition, ...)                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            tsr_result r_ = tsr_fail_((w)->ctx, (w)->code, 0, __FILE__, __LINE__, __VA_ARGS__);    \
            return tsr_error_prefix((w)->ctx, r_, "program: entry '%s': commands[%u]",             \
                                    (w)->entry->name, (w)->index);                                 \
        }                                                                                          \
    } while (0)
/* Private to this folder: verifies the rules of regions; the rules of each command must have been
 * verified. */
TSR_RESULT tsr_program_verify_regions(tsr_ctx *ctx, const tsr_program *program,
                                      const tsr_config *config, tsr_code code);
/* The same for collectives. */
TSR_RESULT tsr_program_verify_collectives(tsr_ctx *ctx, const tsr_program *program,
                                          const tsr_config *config, tsr_code code);
/* The same for loops and branches. */
TSR_RESULT tsr_program_verify_control(tsr_ctx *ctx, const tsr_program *program, tsr_code code);
/* The same for offloads; the rules of regions must have been verified. */
TSR_RESULT tsr_program_verify_offloads(tsr_ctx *ctx, const tsr_program *program, tsr_code code);
/* sizes.c: sizes, what they replace, and the rows of ports. */
TSR_RESULT tsr_program_verify_sizes(tsr_ctx *ctx, const tsr_program *program,
                                    const tsr_config *config, tsr_code code);
/* Private to this folder: returns true if the buffers share bytes. */
bool tsr_program_overlap(const tsr_program_buffer *a, const tsr_program_buffer *b);
/* Returns true if this data input is split among the virtual ranks of the entry. */
bool tsr_program_splits(const tsr_config *config, const tsr_config_entry *entry,
                        const tsr_config_port *input);
/* Returns the total bytes of the HOST buffers, or of one copy of the VRANK or SUMS buffers: a
 * multiple of 64.
 */
uint64_t tsr_program_space_bytes(const tsr_program_entry *entry, tsr_space space);

/* Returns the bytes of a buffer. */
uint64_t tsr_program_buffer_size(const tsr_program_buffer *buffer);
/* Returns the bytes of a device's memory that a command reads and writes: each of its arguments
 * once, whole; HOST buffers do not count. `sizes`: those of the call, or NULL for the largest. */
uint64_t tsr_program_command_bytes(const tsr_program_entry *entry,
                                   const tsr_program_command *command, const uint64_t *sizes);
/* Computes the bytes of the workspace that are in use at each command: a value is in use from the
 * first to the last command that accesses it, where an AWAIT accesses the copied buffers;
 * successive values in the same slot count once. out_bytes has an element for each command.
 * Returns false if out of memory. */
bool tsr_program_live(const tsr_program_entry *entry, tsr_arena *arena, uint64_t *out_bytes);
/* Returns the number of PREPARED buffers of a verified program: their indices are below it. */
uint32_t tsr_program_prepacked_count(const tsr_program *program);
/* Iterates over prepared buffers from cursor {0} on: returns the first buffer of index 0, of index
 * 1, …; NULL after the last one. */
typedef struct tsr_prepacked_cursor {
    uint32_t entry, buffer, index;
} tsr_prepacked_cursor;
const tsr_program_buffer *tsr_program_next_prepacked(const tsr_program *program,
                                                     tsr_prepacked_cursor *cursor);

/* Writes a readable listing; `program` must be verified against `config`. Its form may change. */
void tsr_program_format(const tsr_program *program, const tsr_config *config, tsr_buffer *out);

#endif
