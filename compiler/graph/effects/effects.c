/* SPDX-License-Identifier: Apache-2.0
 *
 * The effects of single ops, and the attributes that name effects.
 */
#include "compiler/graph/effects/effects.h"

#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/resilience_ops.h"
#include "runtime/base/array.h"
#include "runtime/base/suggest.h"

#include <stdio.h>
#include <string.h>

static const char nondeterministic[] = "nondeterministic";

const char *tsr_effect_word(size_t kind) {
    return kind < TSR_EFFECT_COUNT ? tsr_effect_name(kind) : nondeterministic;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static const struct {
    tsr_op op;
    uint32_t effect;
    const char *attribute;
} rows[] = {
#define X(ID, EFFECT, attribute) {TSR_##ID, TSR_EFFECT_##EFFECT, attribute},
#include "compiler/graph/effects/effects.def"
#undef X
};

uint32_t tsr_effects_of(MlirOperation op) {
    tsr_op id = tsr_sr_op_plain(op);
    uint32_t effects = 0;
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        if (rows[i].op == id && (!rows[i].attribute || tsr_op_has(op, rows[i].attribute)))
            effects |= rows[i].effect;
    return effects;
}

const char *tsr_effects_callee(MlirOperation op) {
    switch (tsr_sr_op_plain(op)) {
    case TSR_FUNC_CALL:
        return tsr_op_string(op, "callee");
    case TSR_SR_ON_FAILURE:
    case TSR_SR_ON_RECOVERY:
        return tsr_op_string(op, "handler");
    default:
        return NULL;
    }
}

char *tsr_notes_add(tsr_notes *notes, MlirLocation location) {
    TSR_ASSERT(notes->count < TSR_DIAG_NOTES_MAX);
    notes->list[notes->count] = (tsr_diag_note){location, notes->texts[notes->count]};
    return notes->texts[notes->count++];
}

/* ---- lists ----------------------------------------------------------------------------------- */

static uint32_t find_word(const char *word, bool suspends) {
    for (size_t i = 0; word && i < TSR_EFFECT_COUNT + (size_t)suspends; i++)
        if (strcmp(tsr_effect_word(i), word) == 0) return UINT32_C(1) << i;
    return 0;
}

static bool refuse_word(MlirOperation op, const char *name, const char *word, bool suspends) {
    char hint[TSR_SUGGESTION_TEXT_MAX], known[TSR_EFFECTS_TEXT_MAX];
    tsr_suggestion meant = {.wrong = word ? word : ""};
    for (size_t i = 0; i < TSR_EFFECT_COUNT + (size_t)suspends; i++)
        tsr_suggest(&meant, tsr_effect_word(i));
    tsr_suggestion_text(&meant, hint);
    return tsr_op_emit_error(op, TSR_DIAG_EFFECT_WORD,
                             "%s: '%.64s' is not an effect; known are %s%s%s%s", name,
                             word ? word : "", tsr_effects_format(TSR_EFFECTS_ALL, known),
                             suspends ? ", " : "", suspends ? nondeterministic : "", hint);
}

bool tsr_effects_check(MlirOperation op, const char *name, bool suspends) {
    MlirAttribute list = tsr_op_attr(op, name);
    uint32_t found = 0;
    if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list))
        return tsr_op_emit_error(op, TSR_DIAG_EFFECT_WORD,
                                 "%s is not a list of effects, such as [\"random\", \"state\"]",
                                 name);
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++) {
        const char *word = tsr_attr_string(mlirArrayAttrGetElement(list, i));
        uint32_t effect = find_word(word, suspends);
        if (!effect) return refuse_word(op, name, word, suspends);
        if (found & effect)
            return tsr_op_emit_error(op, TSR_DIAG_EFFECT_WORD, "%s lists '%s' twice", name, word);
        found |= effect;
    }
    return true;
}

uint32_t tsr_effects_list(MlirAttribute list) {
    uint32_t effects = 0;
    for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++)
        effects |= find_word(tsr_attr_string(mlirArrayAttrGetElement(list, i)), true);
    return effects;
}

bool tsr_effects_read(MlirOperation func, uint32_t *out_effects) {
    MlirAttribute list = tsr_op_attr(func, TSR_EFFECTS_NAME);
    if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) return false;
    *out_effects = tsr_effects_list(list);
    return true;
}

bool tsr_deterministic_read(MlirOperation func, uint32_t *out_seed) {
    MlirAttribute dictionary = tsr_op_attr(func, TSR_DETERMINISTIC_NAME);
    int64_t seed = -1;
    if (mlirAttributeIsNull(dictionary) || !mlirAttributeIsADictionary(dictionary) ||
        mlirDictionaryAttrGetNumElements(dictionary) != 1)
        return false;
    MlirAttribute value = mlirDictionaryAttrGetElementByName(dictionary, tsr_ref("seed"));
    if (mlirAttributeIsNull(value) || mlirAttributeIsABool(value) || !tsr_attr_i64(value, &seed) ||
        seed < 0 || seed > UINT32_MAX)
        return false;
    *out_seed = (uint32_t)seed;
    return true;
}
