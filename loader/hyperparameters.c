/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/hyperparameters.h"

#include "loader/model.h"
#include "loader/use.h"
#include "runtime/base/buffer.h"
#include "runtime/base/suggest.h"
#include "runtime/transport/collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

/* Returns what the input of this name is filled with; NULL: no input has it. */
static const tsr_config_hyperparameter *find_input(const tsr_model *model, const char *name) {
    for (size_t e = 0; e < model->config.entry_count; e++) {
        const tsr_config_entry *entry = &model->config.entries[e];
        for (size_t i = 0; i < entry->input_count; i++)
            if (tsr_port_is_hyperparameter(&entry->inputs[i], name))
                return entry->inputs[i].hyperparameter;
    }
    return NULL;
}

static size_t count_of(const tsr_model *model) {
    return model->config.identity.hyperparameter_count;
}

/* A value that equals the program's is not one that the run set. */
static void put(tsr_model *model, size_t index, const char *value) {
    tsr_hyperparameters *own = &model->hyperparameters;
    const tsr_hyperparameter *of = &model->config.identity.hyperparameters[index];
    bool is_set = strcmp(value, of->value) != 0;
    if (value != own->current[index])
        snprintf(own->current[index], sizeof own->current[index], "%s", value);
    own->list[index] = (tsr_hyperparameter){of->name, own->current[index], is_set};
    tsr_executor_set_hyperparameter(model->executor, of->name, strtod(value, NULL));
}

tsr_result tsr_hyperparameters_init(tsr_ctx *ctx, tsr_model *model) {
    tsr_hyperparameters *own = &model->hyperparameters;
    size_t count = count_of(model);
    own->list = TSR_NEW(&model->arena, tsr_hyperparameter, count + 1);
    own->current = TSR_NEW(&model->arena, tsr_value_text, count + 1);
    own->asked = TSR_NEW(&model->arena, tsr_value_text, count + 1);
    if (!own->list || !own->current || !own->asked)
        FAIL(ctx, TSR_MEMORY, "no memory for %zu hyper-parameters", count);
    own->identity = (tsr_identity){model->config.identity.program, count, own->list};
    tsr_hyperparameters_begin(model);
    return TSR_SUCCESS;
}

void tsr_hyperparameters_begin(tsr_model *model) {
    for (size_t i = 0; i < count_of(model); i++) {
        const char *asked = model->hyperparameters.asked[i];
        put(model, i, asked[0] ? asked : model->config.identity.hyperparameters[i].value);
    }
}

/* ---- what the caller sets ---- */

static tsr_result fail_unknown(tsr_ctx *ctx, const tsr_model *model, const char *name,
                               const char *value) {
    const tsr_identity *identity = &model->config.identity;
    char meant[TSR_SUGGESTION_TEXT_MAX];
    tsr_suggestion likely = {.wrong = name};
    tsr_buffer list = {0};
    if (!tsr_identity_is_known(identity))
        FAIL(ctx, TSR_USAGE,
             "'%s' cannot be set to %s: '%s' lists no hyper-parameters, so that states and logs "
             "could not record it; build it again",
             name, value, model->config.name);
    for (size_t i = 0; i < identity->hyperparameter_count; i++) {
        const tsr_hyperparameter *one = &identity->hyperparameters[i];
        tsr_suggest(&likely, one->name);
        tsr_buffer_printf(&list, "%s%s %s", i ? ", " : "", one->name, one->value);
    }
    tsr_result result =
        tsr_fail(ctx, TSR_USAGE,
                 "'%s' cannot be set to %s: it is not a hyper-parameter of '%s', "
                 "which has %s%s",
                 name, value, model->config.name, list.size_bytes ? list.bytes : "none",
                 tsr_suggestion_text(&likely, meant));
    tsr_buffer_finish(&list);
    return result;
}

static tsr_result check_range(tsr_ctx *ctx, tsr_code code, const char *name, const char *value,
                              const tsr_config_hyperparameter *of) {
    double number = strtod(value, NULL);
    tsr_value_text least, most;
    if (number >= of->least && number <= of->most) return TSR_SUCCESS;
    FAIL(ctx, code, "%s is %s; expected a number from %s to %s", name, value,
         tsr_hyperparameter_format(of->least, least), tsr_hyperparameter_format(of->most, most));
}

/* The texts of all values must fit into a token. */
static tsr_result check_size(tsr_ctx *ctx, tsr_code code, const tsr_model *model, size_t index,
                             const char *value) {
    tsr_identity all = model->hyperparameters.identity;
    size_t size = tsr_identity_size(&all) - strlen(all.hyperparameters[index].value);
    if (size + strlen(value) <= TSR_HYPERPARAMETERS_BYTES_MAX) return TSR_SUCCESS;
    FAIL(ctx, code,
         "%s cannot be set to %s: the hyper-parameters would have %zu bytes; a "
         "state stores at most %d",
         all.hyperparameters[index].name, value, size + strlen(value),
         TSR_HYPERPARAMETERS_BYTES_MAX);
}

static tsr_result set(tsr_ctx *ctx, tsr_model *model, const char *name, double number) {
    tsr_hyperparameters *own = &model->hyperparameters;
    const tsr_hyperparameter *of = tsr_identity_find(&model->config.identity, name);
    const tsr_config_hyperparameter *input = find_input(model, name);
    tsr_value_text value;
    tsr_hyperparameter_format(number, value);
    if (!of) return fail_unknown(ctx, model, name, value);
    if (!input)
        FAIL(ctx, TSR_USAGE,
             "%s is %s in '%s' and cannot be set to %s: the bundle has no input for it; build it "
             "again with %s, or, if an older Tessera built it, with this one",
             name, of->value, model->config.name, value, value);
    TRY(ctx, check_range(ctx, TSR_USAGE, name, value, input));
    size_t index = (size_t)(of - model->config.identity.hyperparameters);
    TRY(ctx, check_size(ctx, TSR_USAGE, model, index, value));
    memset(own->asked[index], 0, sizeof own->asked[index]); /* ranks compare all bytes */
    snprintf(own->asked[index], sizeof own->asked[index], "%s", value);
    put(model, index, value);
    own->changed = true;
    if (own->store) tsr_store_set_hyperparameters(own->store, &own->identity);
    return TSR_SUCCESS;
}

tsr_result tsr_model_set_hyperparameter(tsr_ctx *ctx, tsr_model *model, const char *name,
                                        double value) {
    tsr_use use;
    TRY(ctx, tsr_use_begin(ctx, model, TSR_USE_NUMBER, 0, &use));
    tsr_result result = set(ctx, model, name, value);
    tsr_use_end(model, &use);
    return result;
}

/* ---- what earlier runs set ---- */

/* `index`: of the hyper-parameter in this program, whose value is decided. */
static void tell(const tsr_ctx *ctx, const tsr_model *model, const tsr_hyperparameter *stored,
                 size_t index, uint64_t generation) {
    const tsr_hyperparameter *mine = &model->hyperparameters.list[index];
    const char *of_program = model->config.identity.hyperparameters[index].value;
    if (!generation) return;
    if (strcmp(mine->value, stored->value) != 0)
        tsr_log(ctx, TSR_LOG_NOTICE,
                "generation %" PRIu64 " was trained with %s %s, which was set; this run continues "
                "with %s",
                generation, stored->name, stored->value, mine->value);
    else if (!model->hyperparameters.asked[index][0] && mine->is_set)
        tsr_log(ctx, TSR_LOG_NOTICE,
                "%s stays %s, as it was set for generation %" PRIu64 "; the program has %s, which "
                "--set %s=%s restores",
                mine->name, mine->value, generation, of_program, mine->name, of_program);
}

tsr_result tsr_hyperparameters_take(tsr_ctx *ctx, tsr_model *model, const tsr_identity *stored,
                                    uint64_t generation) {
    const tsr_identity *program = &model->config.identity;
    for (size_t i = 0; i < stored->hyperparameter_count; i++) {
        const tsr_hyperparameter *one = &stored->hyperparameters[i];
        const tsr_hyperparameter *of = tsr_identity_find(program, one->name);
        if (!one->is_set) continue;
        if (!of) {
            if (generation)
                tsr_log(ctx, TSR_LOG_NOTICE,
                        "generation %" PRIu64 " was trained with %s %s, which was set; this "
                        "program has none",
                        generation, one->name, one->value);
            continue;
        }
        size_t index = (size_t)(of - program->hyperparameters);
        const tsr_config_hyperparameter *input = find_input(model, one->name);
        bool takes = input && !model->hyperparameters.asked[index][0];
        if (takes) TRY(ctx, check_range(ctx, TSR_MISMATCH, one->name, one->value, input));
        if (takes) TRY(ctx, check_size(ctx, TSR_MISMATCH, model, index, one->value));
        if (takes) put(model, index, one->value);
        tell(ctx, model, one, index, generation);
    }
    return TSR_SUCCESS;
}

/* ---- ranks ---- */

tsr_result tsr_hyperparameters_agree(tsr_ctx *ctx, tsr_model *model) {
    tsr_hyperparameters *own = &model->hyperparameters;
    tsr_digest asked = tsr_hash(own->asked, count_of(model) * sizeof *own->asked);
    TRY(ctx, tsr_agree(ctx, model->transport, "values of hyper-parameters", &asked, sizeof asked));
    own->changed = false;
    return TSR_SUCCESS;
}

tsr_result tsr_hyperparameters_share(tsr_ctx *ctx, tsr_model *model) {
    tsr_hyperparameters *own = &model->hyperparameters;
    size_t count = count_of(model);
    if (!model->transport || !count) return TSR_SUCCESS;
    TRY(ctx, tsr_broadcast(ctx, model->transport, 0, own->current, count * sizeof *own->current));
    for (size_t i = 0; i < count; i++) put(model, i, own->current[i]);
    return TSR_SUCCESS;
}
