/* SPDX-License-Identifier: Apache-2.0
 *
 * What the schedule decides about one kernel of one target: op tsched.tile with a kernel. The op
 * stands before the group that the kernel computes; the tile stage reads it there.
 */
#ifndef TSR_COMPILER_SCHEDULE_TILING_H
#define TSR_COMPILER_SCHEDULE_TILING_H

#include "compiler/ir/mlir.h"
#include "compiler/schedule/measured.h"

enum { TSR_TILE_SIZES_MAX = TSR_MEASURED_SIZES_MAX, TSR_TILE_CANDIDATES_MAX = 24 };

typedef enum tsr_tiling_kind {
    TSR_TILING_NONE, /* nothing is decided */
#define X(ID, ...) TSR_TILING_##ID,
#include "compiler/schedule/tilings.def"
#undef X
    TSR_TILING_COUNT
} tsr_tiling_kind;

/* Who chose the sizes. */
typedef enum tsr_tiling_source {
    TSR_TILING_SAFE,  /* a rule that needs no estimate */
    TSR_TILING_MODEL, /* the least time or cost that a model predicts */
    TSR_TILING_AUTOTUNE,
    TSR_TILING_USER,
    TSR_TILING_SOURCE_COUNT
} tsr_tiling_source;
extern const char *const tsr_tiling_sources[]; /* ends with NULL */

typedef struct tsr_tiling {
    tsr_tiling_kind kind;
    tsr_tiling_source source;
    size_t count;
    int64_t sizes[TSR_TILE_SIZES_MAX];
    const char *signature;         /* borrowed; NULL: not known */
    uint64_t safe_ns, measured_ns; /* of an AUTOTUNE: measurements; 0: not known */
    /* The chosen sizes and others that the kernel can have; each once. */
    size_t candidate_count;
    int64_t candidates[TSR_TILE_CANDIDATES_MAX][TSR_TILE_SIZES_MAX];
} tsr_tiling;

const char *tsr_tiling_name(tsr_tiling_kind kind); /* "product" */
size_t tsr_tiling_count(tsr_tiling_kind kind);
const char *tsr_tiling_size_name(tsr_tiling_kind kind, size_t index);

/* Adds a candidate, unless it is there already or there is no space. */
void tsr_tiling_add(tsr_tiling *tiling, const int64_t *sizes);

/* Makes these sizes the chosen ones. */
void tsr_tiling_choose(tsr_tiling *tiling, const int64_t *sizes, tsr_tiling_source source);

/* Attribute `source` of an op that gives sizes; USER where it has none, or another author. */
tsr_tiling_source tsr_tiling_source_of(MlirOperation op);

/* Writes tsched.tile before the group. */
void tsr_tiling_write(const tsr_tiling *tiling, MlirOperation group);
/* Reads the sizes that tsched.tile chose: at most TSR_TILE_SIZES_MAX; false if it has none. */
bool tsr_tiling_read(MlirOperation tile, int64_t *sizes, size_t *out_count);
/* The kind that it notes; NONE where it notes none, or an unknown one. */
tsr_tiling_kind tsr_tiling_kind_of(MlirOperation tile);
/* The kernel that a tsched.tile is for; NULL if it is for a group of a plan. */
const char *tsr_tiling_kernel(MlirOperation tile);

/* Appends the tsched.tile of a kernel as a JSON object. */
void tsr_tiling_json(MlirOperation tile, tsr_buffer *out);

#endif
