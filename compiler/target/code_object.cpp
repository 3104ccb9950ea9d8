// SPDX-License-Identifier: Apache-2.0
//
// The metadata of a code object: a note with a MessagePack document. Source: LLVM, "User Guide for
// AMDGPU Backend", Code Object Metadata.
#include "compiler/target/link.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/BinaryFormat/MsgPackDocument.h>
#include <llvm/Object/ELF.h>

#include <algorithm>
#include <string>

namespace {

using File = llvm::object::ELFFile<llvm::object::ELF64LE>;

// The note's document, or "".
std::string find_document(const File &file) {
    auto sections = file.sections();
    std::string found;
    if (!sections) {
        llvm::consumeError(sections.takeError());
        return found;
    }
    for (const auto &section : *sections) {
        if (section.sh_type != llvm::ELF::SHT_NOTE) continue;
        llvm::Error error = llvm::Error::success();
        for (auto note : file.notes(section, error))
            if (note.getName() == "AMDGPU" && note.getType() == llvm::ELF::NT_AMDGPU_METADATA)
                found = note.getDescAsStringRef(4).str();
        llvm::consumeError(std::move(error));
    }
    return found;
}

uint32_t number_of(llvm::msgpack::MapDocNode &map, const char *key) {
    auto at = map.find(key);
    if (at == map.end() || at->second.getKind() != llvm::msgpack::Type::UInt) return 0;
    return static_cast<uint32_t>(at->second.getUInt());
}

bool read_kernels(llvm::msgpack::Document &document, const llvm::StringMap<size_t> &rows,
                  tsr_code_resources *out_rows) {
    size_t found = 0;
    auto &kernels = document.getRoot().getMap()["amdhsa.kernels"].getArray(true);
    for (auto &node : kernels) {
        auto &kernel = node.getMap();
        auto row = rows.find(kernel[".name"].toString());
        if (row == rows.end()) continue;
        out_rows[row->second] = {number_of(kernel, ".vgpr_count"), number_of(kernel, ".sgpr_count"),
                                 number_of(kernel, ".agpr_count"),
                                 number_of(kernel, ".group_segment_fixed_size"),
                                 number_of(kernel, ".private_segment_fixed_size")};
        found++;
    }
    return found == rows.size();
}

} // namespace

bool tsr_read_code_object(const void *bytes, size_t size_bytes, size_t count,
                          const char *const *names, tsr_code_resources *out_rows,
                          size_t message_bytes, char *out_message) {
    std::string document, message;
    auto file = File::create(llvm::StringRef(static_cast<const char *>(bytes), size_bytes));
    llvm::StringMap<size_t> rows;
    llvm::msgpack::Document parsed;
    for (size_t i = 0; i < count; i++) rows[names[i]] = i;
    if (!file)
        message = llvm::toString(file.takeError());
    else if (document = find_document(*file); document.empty())
        message = "there is none";
    else if (!parsed.readFromBlob(document, false) || !parsed.getRoot().isMap())
        message = "it cannot be read";
    else if (!read_kernels(parsed, rows, out_rows))
        message = "a kernel is missing";
    size_t size = std::min(message.size(), message_bytes - 1);
    std::copy_n(message.data(), size, out_message);
    out_message[size] = '\0';
    return message.empty();
}
