/* SPDX-License-Identifier: Apache-2.0
 *
 * Adopts the state of another bundle: an edited model takes the tensors that still match by name,
 * and reports why the others do not match.
 */
#include "loader/model.h"
#include "loader/use.h"
#include "runtime/base/plural.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of the state, under its name in this model. */
typedef struct candidate {
    const char *name; /* allocated in the arena, or the tensor's */
    const tsr_tensor *tensor;
    bool taken;
} candidate;

typedef struct adoption {
    tsr_model *model;
    const tsr_adopt_options *options;
    tsr_arena arena;
    tsr_tensor *stored;
    size_t stored_count;
    candidate *candidates; /* sorted by name; in the arena */
    bool *used;            /* one flag for each rename */
    size_t taken_count, renamed_count;
} adoption;

/* ---- names ---- */

/* Returns the length of `from` if it is the name or a prefix before a dot, else 0. */
static size_t matched(const char *name, const char *from) {
    size_t length = strlen(from);
    if (strncmp(name, from, length) != 0) return 0;
    return name[length] == '\0' || name[length] == '.' ? length : 0;
}

/* Applies the longest matching rename. */
static tsr_result rename_tensor(tsr_ctx *ctx, adoption *a, candidate *of) {
    const char *name = of->tensor->name;
    size_t best = 0, best_length = 0;
    for (size_t i = 0; i < a->options->rename_count; i++) {
        size_t length = matched(name, a->options->renames[i].from);
        if (length) a->used[i] = true;
        if (length <= best_length) continue;
        best = i;
        best_length = length;
    }
    of->name = name;
    if (!best_length) return TSR_SUCCESS;
    of->name =
        tsr_arena_printf(&a->arena, "%s%s", a->options->renames[best].to, name + best_length);
    if (!of->name) FAIL(ctx, TSR_MEMORY, "no memory for a name");
    a->renamed_count++;
    return TSR_SUCCESS;
}

static tsr_result check_renames(tsr_ctx *ctx, const adoption *a) {
    for (size_t i = 0; i < a->options->rename_count; i++) {
        const tsr_rename *rename = &a->options->renames[i];
        for (size_t k = 0; k < i; k++)
            if (strcmp(rename->from, a->options->renames[k].from) == 0)
                FAIL(ctx, TSR_USAGE, "'%s' is renamed twice, to '%s' and '%s'", rename->from,
                     a->options->renames[k].to, rename->to);
        if (!a->used[i])
            FAIL(ctx, TSR_USAGE, "the state has no tensor '%s' that could be renamed to '%s'",
                 rename->from, rename->to);
    }
    return TSR_SUCCESS;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const candidate *)a)->name, ((const candidate *)b)->name);
}

static tsr_result sort_candidates(tsr_ctx *ctx, adoption *a) {
    const candidate *all = a->candidates;
    qsort(a->candidates, a->stored_count, sizeof *a->candidates, by_name);
    for (size_t i = 1; i < a->stored_count; i++)
        if (strcmp(all[i - 1].name, all[i].name) == 0)
            FAIL(ctx, TSR_USAGE, "'%s' and '%s' of the state would both be '%s'",
                 all[i - 1].tensor->name, all[i].tensor->name, all[i].name);
    return TSR_SUCCESS;
}

/* ---- tensors ---- */

static tsr_result adopt_tensor(tsr_ctx *ctx, adoption *a, const tsr_sharded_view *view,
                               size_t index) {
    const tsr_tensor *tensor = &view->tensors[index];
    char there[TSR_TYPE_TEXT_MAX], here[TSR_TYPE_TEXT_MAX];
    const candidate key = {.name = tensor->name};
    candidate *found =
        bsearch(&key, a->candidates, a->stored_count, sizeof *a->candidates, by_name);
    if (!found) {
        tsr_log(ctx, TSR_LOG_WARNING,
                "'%s' starts from its initial value: the state has no tensor of this name",
                tensor->name);
        return TSR_SUCCESS;
    }
    const tsr_tensor *stored = found->tensor;
    found->taken = true;
    if (stored->dtype != tensor->dtype || !tsr_shape_equal(&stored->shape, &tensor->shape)) {
        tsr_log(ctx, TSR_LOG_WARNING,
                "'%s' starts from its initial value: it is %s in the state, %s in the program",
                tensor->name, tsr_type_format(stored->dtype, &stored->shape, there),
                tsr_type_format(tensor->dtype, &tensor->shape, here));
        return TSR_SUCCESS;
    }
    tsr_sharded_view_fill(view, index, stored->data);
    a->taken_count++;
    return TSR_SUCCESS;
}

static void tell(tsr_ctx *ctx, const adoption *a, const tsr_generation *from) {
    for (size_t i = 0; i < a->stored_count; i++)
        if (!a->candidates[i].taken)
            tsr_log(ctx, TSR_LOG_WARNING, "'%s' of the state is not used: the program has no '%s'",
                    a->candidates[i].tensor->name, a->candidates[i].name);
    tsr_log(ctx, TSR_LOG_WARNING,
            "state directory '%s': %zu of %zu tensor%s of generation %" PRIu64 ", step %" PRIu64
            ", are taken over (%zu renamed); the program has %zu",
            a->options->directory, a->taken_count, a->stored_count, TSR_PLURAL(a->stored_count),
            from->number, from->position.step, a->renamed_count, a->model->state_count);
}

static tsr_result adopt(tsr_ctx *ctx, adoption *a, tsr_generation *out_generation) {
    tsr_recovery recovery;
    size_t renames = a->options->rename_count;
    TRY(ctx, tsr_store_read(ctx, a->options->directory, NULL, TSR_RESUME_AUTO, 0, &a->arena,
                            &recovery, &a->stored, &a->stored_count));
    if (!recovery.found)
        FAIL(ctx, TSR_STATE, "state '%s' holds no generation", a->options->directory);
    a->candidates = TSR_NEW(&a->arena, candidate, a->stored_count + 1);
    a->used = TSR_NEW(&a->arena, bool, renames + 1);
    if (!a->candidates || !a->used)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu names", a->stored_count);
    for (size_t i = 0; i < a->stored_count; i++) {
        a->candidates[i].tensor = &a->stored[i];
        TRY(ctx, rename_tensor(ctx, a, &a->candidates[i]));
    }
    TRY(ctx, check_renames(ctx, a));
    TRY(ctx, sort_candidates(ctx, a));
    TRY(ctx, tsr_executor_claim(ctx, a->model->executor));
    tsr_sharded_view view = tsr_model_get_sharded_view(a->model);
    for (size_t i = 0; i < view.count; i++) TRY(ctx, adopt_tensor(ctx, a, &view, i));
    tell(ctx, a, &recovery.generation);
    if (a->taken_count == 0)
        FAIL(ctx, TSR_MISMATCH,
             "state '%s' has no tensor with the name, type and shape of a tensor of the program",
             a->options->directory);
    *out_generation = recovery.generation;
    return TSR_SUCCESS;
}

tsr_result tsr_state_adopt(tsr_ctx *ctx, tsr_model *model, const tsr_adopt_options *options,
                           tsr_generation *out_generation) {
    adoption a = {.model = model, .options = options};
    TRY(ctx, tsr_model_check_filled(ctx, model));
    tsr_result result = adopt(ctx, &a, out_generation);
    tsr_arena_finish(&a.arena);
    if (!result.code) model->untrained = false;
    return result;
}
