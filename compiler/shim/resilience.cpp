// SPDX-License-Identifier: Apache-2.0
//
// TableGen glue of dialect `tessera_sr`. The rules of its ops are in C
// (compiler/resilience/rules.c).
// clang-format off
#include "compiler/shim/glue.hpp"


#include "compiler/resilience_dialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/resilience_types.h.inc"
#define GET_OP_CLASSES
#include "compiler/resilience_ops.h.inc"

#include "compiler/resilience_dialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/resilience_types.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/resilience_ops.cpp.inc"
// clang-format on

namespace tessera::sr {
#define TSR_VERIFY_TESSERA(Class)
#define TSR_VERIFY_ALONE(Class)
#define TSR_VERIFY_SR(Class) TSR_VERIFY(Class, tsr_sr_verify_op)
#define X(ID, name, DIALECT, Class, check, canonical) TSR_VERIFY_##DIALECT(Class)
#include "compiler/resilience/ops.def"
#undef X

void SrDialect::initialize() {
    addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/resilience_types.cpp.inc"
        >();
    addOperations<
#define GET_OP_LIST
#include "compiler/resilience_ops.cpp.inc"
        >();
    addInterfaces<Inliner>();
}
} // namespace tessera::sr

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(TesseraSr, tessera_sr, tessera::sr::SrDialect)
