/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that need the compiler, in a build without it (meson setup -Dcompiler=false).
 */
#include "tools/aot/aot.h"

const bool tsr_aot_compiles = false;

static tsr_result refuse(tsr_ctx *ctx, const char *name) {
    FAIL(ctx, TSR_USAGE,
         "%s: this tessera-aot was built without the compiler (-Dcompiler=false); expected one "
         "built "
         "with it",
         name);
}

#define X(id, name, arguments, about)                                                              \
    tsr_result tsr_aot_##id(tsr_ctx *ctx, int argc, char **argv) {                                 \
        (void)argc, (void)argv;                                                                    \
        return refuse(ctx, name);                                                                  \
    }
#include "tools/aot/compiler_commands.def"
#undef X
