/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the rules of dialect tessera_target share.
 */
#ifndef TSR_COMPILER_TARGET_HOST_RULES_H
#define TSR_COMPILER_TARGET_HOST_RULES_H

#include "compiler/ir/mlir.h"
#include "manifests/program.h"

/* A kind of tessera_target.control; NULL for an unknown kind. */
typedef struct tsr_target_control {
    const char *kind;
    tsr_opcode opcode;
    size_t operands;
    bool slices; /* takes or puts a slice; otherwise it has commands, or ends a loop */
} tsr_target_control;
const tsr_target_control *tsr_target_control_find(const char *kind);

/* `requires` of the op names a feature, or is absent. */
bool tsr_target_check_feature(MlirOperation op);
/* Each token is used by one op. */
bool tsr_target_check_token(MlirOperation op);

/* One function for each rule of ops.def, in verify.c or verify_device.c; false after an error was
 * emitted. */
#define X(ID, mnemonic, Class, rule, ...) bool tsr_rule_##rule(MlirOperation op);
#include "compiler/target/host/ops.def"
#undef X

#endif
