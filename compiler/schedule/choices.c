/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/schedule/choices.h"

#include "runtime/base/array.h"
#include "runtime/base/io/io.h"

#include <stdlib.h>
#include <string.h>

enum { BASES_MAX = 64 /* a chain of bases */, SCHEDULE_BYTES_MAX = 1 << 28 };

static tsr_result refuse(tsr_ctx *ctx, MlirOperation op, const char *text) {
    tsr_op_emit_error(op, TSR_DIAG_SCHEDULE, "%s", text);
    FAIL(ctx, TSR_COMPILE, "the schedule cannot be used");
}

static bool is_same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static tsr_result grow(tsr_ctx *ctx, tsr_choices *all) {
    if (all->count < all->capacity) return TSR_SUCCESS;
    size_t capacity = all->capacity ? 2 * all->capacity : 16;
    tsr_choice *grown = reallocarray(all->choices, capacity, sizeof *grown);
    if (!grown) FAIL(ctx, TSR_MEMORY, "no memory for %zu choices", capacity);
    all->choices = grown;
    all->capacity = capacity;
    return TSR_SUCCESS;
}

/* Links the choice after the others of its kernel. */
static tsr_result link_kernel(tsr_ctx *ctx, tsr_choices *all, uint32_t index) {
    tsr_choice *own = &all->choices[index];
    uint32_t at = tsr_names_add(&all->kernels, own->kernel, index);
    while (at != index) {
        tsr_choice *other = &all->choices[at];
        if (is_same(other->target, own->target))
            return refuse(ctx, own->op,
                          "the schedule already has sizes for this kernel and target");
        if (other->next == TSR_NAME_ABSENT) other->next = index;
        at = other->next;
    }
    return TSR_SUCCESS;
}

static tsr_result add(tsr_ctx *ctx, tsr_choices *all, MlirOperation op) {
    const char *name = tsr_op_string(op, "name"), *base = tsr_op_string(op, "base");
    if (tsr_op_operand_count(op)) return refuse(ctx, op, "is for a group of a plan, not a kernel");
    if (!tsr_tiling_kernel(op) && !name) return refuse(ctx, op, "has no kernel and no name");
    if (!tsr_op_has(op, "chosen") && !base)
        return refuse(ctx, op, "has no chosen sizes and no base");
    if (tsr_op_has(op, "chosen") && base)
        return refuse(ctx, op, "has both chosen sizes and a base");
    if (base && tsr_names_find(&all->names, base) == TSR_NAME_ABSENT)
        return refuse(ctx, op, "no earlier tsched.tile has the name of its base");
    TRY(ctx, grow(ctx, all));
    uint32_t index = (uint32_t)all->count++;
    all->choices[index] = (tsr_choice){.op = op,
                                       .kernel = tsr_tiling_kernel(op),
                                       .target = tsr_op_string(op, "target"),
                                       .next = TSR_NAME_ABSENT};
    if (name && tsr_names_add(&all->names, name, index) != index)
        return refuse(ctx, op, "an earlier tsched.tile has the same name");
    return all->choices[index].kernel ? link_kernel(ctx, all, index) : TSR_SUCCESS;
}

tsr_result tsr_choices_add(tsr_ctx *ctx, tsr_choices *choices, MlirModule module, bool is_file) {
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (tsr_op_is(op, TSR_SCHED_TILE))
            TRY(ctx, add(ctx, choices, op));
        else if (is_file)
            return refuse(ctx, op, "is in a schedule, which contains only tsched.tile");
    }
    return TSR_SUCCESS;
}

tsr_result tsr_choices_read(tsr_ctx *ctx, tsr_choices *choices, const char *path, MlirContext mlir,
                            tsr_diag_list *list, tsr_arena *arena, MlirModule *out_module) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    void *text = NULL;
    size_t size_bytes = 0;
    TRY(ctx, tsr_io_read_file(ctx, path, SCHEDULE_BYTES_MAX, arena, &text, &size_bytes));
    TRY(ctx, tsr_mlir_parse(ctx, mlir, list, text, size_bytes, name, out_module));
    return tsr_choices_add(ctx, choices, *out_module, true);
}

void tsr_choices_finish(tsr_choices *choices) {
    free(choices->choices);
    tsr_names_finish(&choices->kernels);
    tsr_names_finish(&choices->names);
    *choices = (tsr_choices){0};
}

tsr_choice *tsr_choices_find(const tsr_choices *choices, const char *kernel, const char *target) {
    tsr_choice *every = NULL;
    uint32_t at = choices->count ? tsr_names_find(&choices->kernels, kernel) : TSR_NAME_ABSENT;
    for (; at != TSR_NAME_ABSENT; at = choices->choices[at].next) {
        tsr_choice *choice = &choices->choices[at];
        if (is_same(choice->target, target)) return choice;
        if (!choice->target) every = choice;
    }
    return every;
}

const tsr_measured *tsr_choices_find_measured(const tsr_choices *choices, const char *target,
                                              const char *signature) {
    for (size_t i = 0; i < choices->measured_count; i++) {
        const tsr_measured *m = &choices->measured[i];
        if (strcmp(m->signature, signature) == 0 && strcmp(m->target, target) == 0) return m;
    }
    return NULL;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static tsr_result override(tsr_ctx *ctx, MlirOperation op, tsr_tiling_kind kind, int64_t *sizes) {
    MlirAttribute with = tsr_op_attr(op, "with");
    size_t count = tsr_tiling_count(kind);
    if (mlirAttributeIsNull(with)) return TSR_SUCCESS;
    for (intptr_t i = 0; i < mlirDictionaryAttrGetNumElements(with); i++) {
        MlirNamedAttribute pair = mlirDictionaryAttrGetElement(with, i);
        const char *name = mlirIdentifierStr(pair.name).data;
        size_t at = 0;
        while (at < count && strcmp(tsr_tiling_size_name(kind, at), name) != 0) at++;
        if (at == count) {
            tsr_op_emit_error(op, TSR_DIAG_SCHEDULE, "a kernel of kind '%s' has no size '%s'",
                              tsr_tiling_name(kind), name);
            FAIL(ctx, TSR_COMPILE, "the schedule cannot be used");
        }
        if (!tsr_attr_i64(pair.attribute, &sizes[at]) || sizes[at] < 0)
            return refuse(ctx, op, "a size of 'with' is not an integer of at least 0");
    }
    return TSR_SUCCESS;
}

tsr_result tsr_choice_sizes(tsr_ctx *ctx, const tsr_choices *choices, const tsr_choice *choice,
                            tsr_tiling_kind kind, int64_t *out_sizes) {
    MlirOperation chain[BASES_MAX] = {choice->op};
    size_t depth = 1, count = 0;
    while (tsr_op_string(chain[depth - 1], "base")) {
        if (depth == BASES_MAX) return refuse(ctx, choice->op, "inherits from too many bases");
        uint32_t at = tsr_names_find(&choices->names, tsr_op_string(chain[depth - 1], "base"));
        chain[depth++] = choices->choices[at].op;
    }
    if (!tsr_tiling_read(chain[depth - 1], out_sizes, &count) || count > tsr_tiling_count(kind)) {
        tsr_op_emit_error(choice->op, TSR_DIAG_SCHEDULE,
                          "chooses %zu sizes; a kernel of kind '%s' has %zu", count,
                          tsr_tiling_name(kind), tsr_tiling_count(kind));
        FAIL(ctx, TSR_COMPILE, "the schedule cannot be used");
    }
    for (size_t i = count; i < tsr_tiling_count(kind); i++) out_sizes[i] = 0;
    while (depth) TRY(ctx, override(ctx, chain[--depth], kind, out_sizes));
    return TSR_SUCCESS;
}

tsr_tiling_source tsr_choice_source(const tsr_choice *choice) {
    return tsr_tiling_source_of(choice->op);
}

tsr_result tsr_choices_check_used(tsr_ctx *ctx, const tsr_choices *choices) {
    bool good = true;
    for (size_t i = 0; i < choices->count; i++) {
        const tsr_choice *choice = &choices->choices[i];
        if (!choice->kernel || choice->is_used) continue;
        good = tsr_op_emit_error(choice->op, TSR_DIAG_SCHEDULE,
                                 "there is no kernel @%s%s%s, or it has no sizes to choose",
                                 choice->kernel, choice->target ? " for " : "",
                                 choice->target ? choice->target : "");
    }
    if (!good) FAIL(ctx, TSR_COMPILE, "the schedule cannot be used");
    return TSR_SUCCESS;
}
