// SPDX-License-Identifier: Apache-2.0
#include "compiler/target/link.h"

#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <lld/Common/Driver.h>
#include <string>

LLD_HAS_DRIVER(elf)

bool tsr_link_elf(size_t count, const char *const *args, size_t size_bytes, char *out_messages) {
    std::string text;
    llvm::raw_string_ostream messages(text);
    lld::Result result =
        lld::lldMain({args, count}, messages, messages, {{lld::Gnu, &lld::elf::link}});
    size_t size = std::min(text.size(), size_bytes - 1);
    std::copy_n(text.data(), size, out_messages);
    out_messages[size] = '\0';
    return result.retCode == 0;
}
