/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters, optimizer state, constants: their rules and declarations.
 */
#include "compiler/graph/rules.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"

#include <math.h>
#include <string.h>

/* ---- initial values -------------------------------------------------------------------------- */

typedef struct init_rule {
    tsr_init_kind kind;
    double a, b;
} init_rule;

static bool read_init(MlirAttribute attr, init_rule *out_rule) {
    static const struct {
        const char *mnemonic;
        tsr_init_kind kind;
    } kinds[] = {{"constant", TSR_INIT_CONSTANT},
                 {"uniform", TSR_INIT_UNIFORM},
                 {"normal", TSR_INIT_NORMAL}};
    const char *mnemonic = "";
    double values[TSR_SHIM_PARAMETERS_MAX] = {0};
    if (mlirAttributeIsNull(attr) || tsr_shim_graph_attr(attr, &mnemonic, values) == 0)
        return false;
    for (size_t i = 0; i < TSR_COUNT(kinds); i++) {
        if (strcmp(mnemonic, kinds[i].mnemonic) != 0) continue;
        *out_rule = (init_rule){.kind = kinds[i].kind, .a = values[0], .b = values[1]};
        return true;
    }
    return false;
}

static bool check_init(const tsr_rule *rule) {
    MlirAttribute attr = tsr_op_attr(rule->op, "init");
    MlirType result = mlirValueGetType(tsr_op_result(rule->op, 0));
    init_rule init;
    if (mlirAttributeIsNull(attr)) return true;
    if (!read_init(attr, &init))
        return tsr_rule_fail(rule, TSR_DIAG_INIT_RULE, "init is not a rule");
    if (!mlirTypeIsANone(mlirAttributeGetType(attr)) &&
        !mlirTypeEqual(mlirAttributeGetType(attr), result))
        return tsr_rule_fail(rule, TSR_DIAG_INIT_TYPE,
                             "the type of init differs from the result's");
    if (!isfinite(init.a) || !isfinite(init.b))
        return tsr_rule_fail(rule, TSR_DIAG_NUMBER, "init has a number that is not finite");
    if (init.kind == TSR_INIT_UNIFORM) {
        tsr_type type;
        bool known = tsr_value_type(tsr_op_result(rule->op, 0), &type);
        TSR_ASSERT(known);
        if (!tsr_rule_uniform(rule, "uniform ", type.dtype, init.a, init.b)) return false;
    }
    if (init.kind == TSR_INIT_NORMAL && !(init.b > 0))
        return tsr_rule_fail(rule, TSR_DIAG_DEVIATION, "normal needs a deviation > 0, has %g",
                             init.b);
    return true;
}

static bool check_group(const tsr_rule *rule) {
    MlirAttribute factor = tsr_op_attr(rule->op, "lr_factor");
    bool given = !mlirAttributeIsNull(factor), number = given && mlirAttributeIsAFloat(factor);
    double value = number ? mlirFloatAttrGetValueDouble(factor) : 1;
    if (given && !number)
        return tsr_rule_fail(
            rule, TSR_DIAG_RATE,
            "lr_factor is not a float; expected a number > 0, as in 'lr_factor = 0.1'");
    if (!(value > 0) || !isfinite(value))
        return tsr_rule_fail(rule, TSR_DIAG_RATE,
                             "lr_factor is %g, needs lr_factor > 0; 'frozen' trains nothing",
                             value);
    if (tsr_op_has(rule->op, "frozen") && (given || tsr_op_has(rule->op, "no_decay")))
        return tsr_rule_fail(rule, TSR_DIAG_RATE,
                             "is frozen, and has %s, which is for trained parameters",
                             given ? "lr_factor" : "no_decay");
    return true;
}

bool tsr_check_param(tsr_rule *rule) {
    MlirAttribute data = tsr_op_attr(rule->op, "data");
    if (!mlirAttributeIsNull(data) && tsr_op_has(rule->op, "init"))
        return tsr_rule_fail(rule, TSR_DIAG_INIT_BOTH, "has both init and data");
    if (!mlirAttributeIsNull(data) &&
        !mlirTypeEqual(mlirAttributeGetType(data), mlirValueGetType(tsr_op_result(rule->op, 0))))
        return tsr_rule_fail(rule, TSR_DIAG_INIT_TYPE,
                             "the type of data differs from the result's");
    return check_group(rule) && check_init(rule);
}

bool tsr_check_opt_state(tsr_rule *rule) { return check_init(rule); }

bool tsr_graph_tensor_read(MlirOperation op, tsr_graph_tensor *out_tensor) {
    tsr_op id = tsr_op_of(op);
    tsr_graph_tensor tensor = {.op = op, .role = TSR_ROLE_PARAM, .data = {NULL}};
    init_rule init;
    if (id != TSR_GRAPH_PARAM && id != TSR_GRAPH_OPT_STATE) return false;
    if (!tsr_value_type(tsr_op_result(op, 0), &tensor.type)) return false;
    tensor.name = tsr_op_string(op, "name");
    tensor.frozen = tsr_op_has(op, "frozen");
    tensor.no_decay = tsr_op_has(op, "no_decay");
    MlirAttribute factor = tsr_op_attr(op, "lr_factor");
    if (!mlirAttributeIsNull(factor)) tensor.lr_factor = mlirFloatAttrGetValueDouble(factor);
    if (id == TSR_GRAPH_OPT_STATE) {
        tensor.role = TSR_ROLE_STATE;
        tensor.of = tsr_op_string(op, "of");
        tensor.kind = tsr_op_string(op, "kind");
        if (!tensor.of || !tensor.kind) return false;
    }
    if (tsr_op_has(op, "data")) {
        tensor.init = TSR_INIT_DATA;
        tensor.data = tsr_op_attr(op, "data");
    } else {
        if (!read_init(tsr_op_attr(op, "init"), &init)) return false;
        tensor.init = init.kind;
        tensor.init_a = init.a;
        tensor.init_b = init.b;
    }
    if (!tensor.name) return false;
    *out_tensor = tensor;
    return true;
}

/* ---- constants, step, assign ----------------------------------------------------------------- */

/* A trait checks that value and result have the same type. */
bool tsr_check_constant(tsr_rule *rule) {
    if (mlirAttributeIsADenseElements(tsr_op_attr(rule->op, "value"))) return true;
    return tsr_rule_fail(rule, TSR_DIAG_DENSE, "the value is not dense<...>");
}

bool tsr_check_step(tsr_rule *rule) {
    rule->results[0] = tsr_type_scalar(TSR_DTYPE_I64);
    return true;
}

bool tsr_check_assign(tsr_rule *rule) {
    const char *target = tsr_op_string(rule->op, "target");
    if (target && target[0]) return true;
    return tsr_rule_fail(rule, TSR_DIAG_NAME_MISSING, "the target has no name");
}
