/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares our declarations of NVTX with NVIDIA's own. Compiled if its headers are installed.
 */
#include "runtime/trace/nvtx.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

#define SAME(name) _Static_assert((int)TSR_##name == (int)name, #name)
SAME(NVTX_CB_MODULE_CORE);
SAME(NVTX_CBID_CORE_RangePushA);
SAME(NVTX_CBID_CORE_RangePop);
SAME(NVTX_CBID_CORE_SIZE);
SAME(NVTX_ETID_CALLBACKS);
SAME(NVTX_ETID_VERSIONINFO);
SAME(NVTX_VERSION);

int main(void) {
    puts("as in nvToolsExt.h");
    return 0;
}
