// SPDX-License-Identifier: Apache-2.0
// What lanes of a warp exchange; each program takes 64 elements. `run` compares with NumPy.
tile.func @lanes(%x: memref<4096xf32>, %from: memref<4096xi32>, %long: memref<4096xf64>, %shuffled: memref<4096xf32>,
                 %crossed: memref<4096xf64>, %gathered: memref<4096xf32>, %votes: memref<192xi32>, %scattered: memref<4096xf32>, %ones: memref<4096xi32>) grid 64 registers 64
    attributes {outputs = 6 : i64} {
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c3 = arith.constant 3 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %far = arith.constant dense<-3.0> : vector<32xf32>
  %pid = tile.program_id
  %at = arith.muli %pid, %c64 : index
  %a = tile.load %x[%at] : memref<4096xf32> -> vector<64xf32>
  %f = tile.load %from[%at] : memref<4096xi32> -> vector<64xi32>
  %s = tile.shuffle %a, %f : vector<64xf32>, vector<64xi32>
  tile.store %s, %shuffled[%at] : vector<64xf32>, memref<4096xf32>
  %l = tile.load %long[%at] : memref<4096xf64> -> vector<64xf64>
  %b1 = tile.butterfly %l, 16 : vector<64xf64>
  %b2 = tile.butterfly %b1, 1 : vector<64xf64>
  tile.store %b2, %crossed[%at] : vector<64xf64>, memref<4096xf64>
  %w = tile.local : memref<64xf32>
  %zi = arith.constant 0 : index
  tile.store %a, %w[%zi] : vector<64xf32>, memref<64xf32>
  tile.barrier
  %m31 = arith.constant dense<31> : vector<64xi32>
  %fi = arith.andi %f, %m31 : vector<64xi32>
  %idx = arith.index_cast %fi : vector<64xi32> to vector<64xindex>
  %g = tile.gather %w[%idx] : memref<64xf32>, vector<64xindex> -> vector<64xf32>
  tile.store %g, %gathered[%at] : vector<64xf32>, memref<4096xf32>
  %none = arith.constant dense<0.0> : vector<64xf32>
  tile.store %none, %w[%zi] : vector<64xf32>, memref<64xf32>
  tile.barrier
  %ff = arith.sitofp %fi : vector<64xi32> to vector<64xf32>
  tile.scatter %ff, %w[%idx] : vector<64xf32>, memref<64xf32>, vector<64xindex>
  tile.barrier
  %ww = tile.load %w[%zi] : memref<64xf32> -> vector<64xf32>
  tile.store %ww, %scattered[%at] : vector<64xf32>, memref<4096xf32>
  %o = math.ctpop %f : vector<64xi32>
  tile.store %o, %ones[%at] : vector<64xi32>, memref<4096xi32>
  %h = tile.load %x[%at] : memref<4096xf32> -> vector<32xf32>
  %c = arith.cmpf ogt, %h, %zero : vector<32xf32>
  %d = arith.cmpf ogt, %h, %far : vector<32xf32>
  %all = tile.vote "all" %d : vector<32xi1> -> i1
  %bits = tile.vote "ballot" %c : vector<32xi1> -> i32
  %any = tile.vote "any" %c : vector<32xi1> -> i1
  %ai = arith.extui %all : i1 to i32
  %ni = arith.extui %any : i1 to i32
  %v0 = arith.muli %pid, %c3 : index
  %v1 = arith.addi %v0, %c1 : index
  %v2 = arith.addi %v0, %c2 : index
  tile.store %ai, %votes[%v0] : i32, memref<192xi32>
  tile.store %bits, %votes[%v1] : i32, memref<192xi32>
  tile.store %ni, %votes[%v2] : i32, memref<192xi32>
  tile.return
}
