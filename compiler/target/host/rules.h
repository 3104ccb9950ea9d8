/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the rules of dialect tessera_target share.
 */
#ifndef TSR_COMPILER_TARGET_HOST_RULES_H
#define TSR_COMPILER_TARGET_HOST_RULES_H

#include "compiler/ir/mlir.h"
#include "manifests/program.h"

typedef enum tsr_vendor { TSR_VENDOR_NVIDIA, TSR_VENDOR_AMD } tsr_vendor;

typedef struct tsr_feature {
    const char *name; /* "sm_90a" */
    tsr_vendor vendor;
    int order;
    int64_t threads, registers, shared_bytes, cluster; /* the maxima of one program */
} tsr_feature;

/* NULL for an unknown name, or NULL. */
const tsr_feature *tsr_feature_find(const char *name);

/* May code for a device with `has` contain an instruction that begins with this text ("wgmma.")?
 * features.def decides; NULL: the device is unknown, so no. */
bool tsr_feature_has(const tsr_feature *has, const char *instruction);

/* A kind of tessera_target.control; NULL for an unknown kind. */
typedef struct tsr_target_control {
    const char *kind;
    tsr_opcode opcode;
    size_t operands;
    bool slices; /* takes or puts a slice; otherwise it has commands, or ends a loop */
} tsr_target_control;
const tsr_target_control *tsr_target_control_find(const char *kind);

/* Emits "<op>: <text>"; returns false. */
bool tsr_target_emit_error(MlirOperation op, tsr_diag_number number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* `requires` of the op names a feature, or is absent. */
bool tsr_target_check_feature(MlirOperation op);
/* Each token is used by one op. */
bool tsr_target_check_token(MlirOperation op);

/* One function for each rule of ops.def, in verify.c or verify_device.c; false after an error was
 * emitted. */
#define X(Class, mnemonic, rule) bool tsr_rule_##rule(MlirOperation op);
#include "compiler/target/host/ops.def"
#undef X

#endif
