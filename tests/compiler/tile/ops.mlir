// Every op of dialect `tile` prints as it is written; a prefetch is not dropped for having no result.
// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// RUN: tessera-opt -canonicalize -cse %s | FileCheck --check-prefix=KEPT %s
// KEPT: tile.prefetch

// CHECK-LABEL: tile.func @ops(
// CHECK-SAME:    %[[X:.*]]: memref<4x8xf32>, %[[L:.*]]: memref<4xi64>) grid 4 {
tile.func @ops(%x: memref<4x8xf32>, %l: memref<4xi64>) grid 4 {
  // CHECK: %[[P:.*]] = tile.program_id
  %p = tile.program_id
  // CHECK: tile.program_end
  %pe = tile.program_end
  // CHECK: tile.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> : memref<2xf32>
  %c = tile.constant dense<[1.0, 2.0]> : tensor<2xf32> : memref<2xf32>
  // CHECK: tile.local : memref<16xf32>
  %b = tile.local : memref<16xf32>
  // CHECK: %[[I:.*]] = tile.load %[[L]][%[[P]]] : memref<4xi64> -> i64
  %i = tile.load %l[%p] : memref<4xi64> -> i64
  // CHECK: tile.check_index %[[I]] below 10 of 1[%[[P]]]
  %v = tile.check_index %i below 10 of 1 [%p]
  // CHECK: tile.check_index %[[I]] below 10 size %[[P]] of 1[%[[P]]]
  %vs = tile.check_index %i below 10 size %p of 1 [%p]
  %w = arith.constant dense<-1> : vector<16xi32>
  // CHECK: tile.dot_bytes %[[W:.*]], %[[W]], %[[W]] {a_unsigned} : vector<16xi32>
  %db = tile.dot_bytes %w, %w, %w {a_unsigned} : vector<16xi32>
  %m = vector.create_mask %p : vector<8xi1>
  // CHECK: %[[V:.*]] = tile.load %[[X]][%[[P]]] mask %[[M:.*]] : vector<8xi1> : memref<4x8xf32> -> vector<8xf32>
  %a = tile.load %x[%p] mask %m : vector<8xi1> : memref<4x8xf32> -> vector<8xf32>
  // CHECK: tile.store %[[V]], %[[X]][%[[P]]] mask %[[M]] : vector<8xi1> : vector<8xf32>, memref<4x8xf32>
  tile.store %a, %x[%p] mask %m : vector<8xi1> : vector<8xf32>, memref<4x8xf32>
  // CHECK: tile.store %[[V]], %{{.*}}[%[[P]]] : vector<8xf32>, memref<16xf32>
  tile.store %a, %b[%p] : vector<8xf32>, memref<16xf32>
  // CHECK: tile.store %[[V]], %{{.*}}[%[[P]]] {streamed} : vector<8xf32>, memref<16xf32>
  tile.store %a, %b[%p] {streamed} : vector<8xf32>, memref<16xf32>
  // CHECK: tile.prefetch %[[X]][%[[P]]] : memref<4x8xf32>
  tile.prefetch %x[%p] : memref<4x8xf32>
  // CHECK: tile.until_aligned %[[X]][%[[P]]] : memref<4x8xf32>
  %ua = tile.until_aligned %x[%p] : memref<4x8xf32>
  // CHECK: tile.prefetch %[[X]][%[[P]]] {later} : memref<4x8xf32>
  tile.prefetch %x[%p] {later} : memref<4x8xf32>
  // CHECK: tile.fetch %[[X]][%[[P]]] to %[[B:.*]][%[[P]]] elements 16 : memref<4x8xf32>, memref<16xf32>
  tile.fetch %x[%p] to %b[%p] elements 16 : memref<4x8xf32>, memref<16xf32>
  // CHECK: tile.fetch %[[X]][%[[P]]] to %[[B]][%[[P]]] mask %[[M]] : vector<8xi1> elements 8 : memref<4x8xf32>, memref<16xf32>
  tile.fetch %x[%p] to %b[%p] mask %m : vector<8xi1> elements 8 : memref<4x8xf32>, memref<16xf32>
  // CHECK: tile.fetched but 1
  tile.fetched but 1
  // CHECK: tile.add_programs %[[V]] by %[[B]] : vector<8xf32>, memref<16xf32>
  %s = tile.add_programs %a by %b : vector<8xf32>, memref<16xf32>
  // CHECK: tile.gelu %[[V]] : vector<8xf32>
  %g = tile.gelu %a : vector<8xf32>
  // CHECK: tile.gelu %[[V]] {slope} : vector<8xf32>
  %gs = tile.gelu %a {slope} : vector<8xf32>
  %h = arith.constant dense<1.0> : vector<16xbf16>
  %o = arith.constant dense<1.0> : vector<2xbf16>
  // CHECK: %[[D:.*]] = tile.dot %[[O:.*]], %[[H:.*]], %[[V]] : vector<2xbf16>, vector<16xbf16>, vector<8xf32>
  %d = tile.dot %o, %h, %a : vector<2xbf16>, vector<16xbf16>, vector<8xf32>
  // CHECK: tile.dot %[[H]], %[[H]], %[[D]] : vector<16xbf16>, vector<16xbf16>, vector<8xf32>
  %e = tile.dot %h, %h, %d : vector<16xbf16>, vector<16xbf16>, vector<8xf32>
  // CHECK: tile.return
  tile.return
}
