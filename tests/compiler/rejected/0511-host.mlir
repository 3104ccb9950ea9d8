// SPDX-License-Identifier: Apache-2.0
// from: target
// A host program without what it needs to know of its tensors.
module attributes {tessera.target = "cpu:x86-64-v3"} {
  tessera_target.func @f workspace 64 {
    %a = tessera_target.alloc offset 0 : memref<4xf32>
  }
}
