// SPDX-License-Identifier: Apache-2.0
// Bytecode keeps to the limits of texts, and what is damaged ends only the child that reads it.
// RUN: %python -c "print('module {' * 256 + '}' * 256)" | mlir-opt --emit-bytecode -o %t.deep -
// RUN: tessera-opt --no-output %t.deep
// RUN: %python -c "print('module {' * 257 + '}' * 257)" | mlir-opt --emit-bytecode -o %t.deep -
// RUN: not tessera-opt %t.deep 2>&1 | FileCheck %s --check-prefix=DEEP
// DEEP: :0:0: error: [TSR-0005] brackets are nested 257 deep; at most 256 are accepted
// RUN: tessera-opt --emit-bytecode %s | head -c 100 >%t.cut
// RUN: not tessera-opt %t.cut 2>&1 | FileCheck %s --check-prefix=CUT
// CUT: :0:0: error: [TSR-0016]
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tessera.exp %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
