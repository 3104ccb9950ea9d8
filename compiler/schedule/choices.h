/* SPDX-License-Identifier: Apache-2.0
 *
 * A schedule that somebody made: the tsched.tile ops, each for a kernel, of a file or of a module
 * of Schedule IR, and what they say about a kernel of a target.
 */
#ifndef TSR_COMPILER_SCHEDULE_CHOICES_H
#define TSR_COMPILER_SCHEDULE_CHOICES_H

#include "compiler/ir/names.h"
#include "compiler/schedule/measured.h"
#include "compiler/schedule/tiling.h"

typedef struct tsr_choice {
    MlirOperation op;
    const char *kernel, *target; /* borrowed from the context; target NULL: every target */
    uint32_t next;               /* the next choice for the same kernel; TSR_NAME_ABSENT: none */
    bool is_used;                /* a kernel of some target has it */
} tsr_choice;

/* Zero-initialise. The ops stay in their modules, which must outlive it. */
typedef struct tsr_choices {
    tsr_choice *choices; /* owned, like the maps; the maps' numbers are indices */
    size_t count, capacity;
    tsr_names kernels, names; /* by kernel: the first choice; by `name` */
    /* Used where there is no choice; borrowed. */
    const tsr_measured *measured;
    size_t measured_count;
} tsr_choices;

/* Adds the choices of a module. A file may contain nothing else. TSR_COMPILE after a diagnostic
 * about an op that is no choice, has no kernel and no name, repeats a kernel of a target, or
 * inherits from a name that is not defined before it. */
TSR_RESULT tsr_choices_add(tsr_ctx *ctx, tsr_choices *choices, MlirModule module, bool is_file);
/* Adds the choices of a file, whose module the caller destroys after the choices. */
TSR_RESULT tsr_choices_read(tsr_ctx *ctx, tsr_choices *choices, const char *path, MlirContext mlir,
                            tsr_diag_list *list, tsr_arena *arena, MlirModule *out_module);
void tsr_choices_finish(tsr_choices *choices);

/* The choice for a kernel of a target; NULL: none. One that names the target takes precedence. */
tsr_choice *tsr_choices_find(const tsr_choices *choices, const char *kernel, const char *target);
/* What was measured for a target and a signature; NULL: nothing. */
const tsr_measured *tsr_choices_find_measured(const tsr_choices *choices, const char *target,
                                              const char *signature);
/* The sizes of a choice for a kernel of this kind, with those of its bases; TSR_COMPILE after a
 * diagnostic if their number is not that of the kind, or the kind has no size of a name. */
TSR_RESULT tsr_choice_sizes(tsr_ctx *ctx, const tsr_choices *choices, const tsr_choice *choice,
                            tsr_tiling_kind kind, int64_t *out_sizes);
tsr_tiling_source tsr_choice_source(const tsr_choice *choice); /* "user" where it does not say */
/* TSR_COMPILE after a diagnostic about each choice that no kernel has. */
TSR_RESULT tsr_choices_check_used(tsr_ctx *ctx, const tsr_choices *choices);

#endif
