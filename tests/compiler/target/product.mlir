// SPDX-License-Identifier: Apache-2.0
// One product of matrices for the matrix units of two vendors, two generations of one.
// RUN: tile-code cuda:sm_90a text %s %t && FileCheck %s --check-prefix=SM90 --input-file=%t
// RUN: tile-code cuda:sm_80 text %s %t && FileCheck %s --check-prefix=SM80 --input-file=%t
// RUN: tile-code hip:gfx950 text %s %t && FileCheck %s --check-prefix=GFX950 --input-file=%t
// RUN: not tile-code cpu:x86-64-v3 text %s %t 2>&1 | FileCheck %s --check-prefix=CPU

// CPU: error: [TSR-0707] tile.alloc_shared: there is no machine code for it on 'cpu:x86-64-v3'; expected a GPU

// One thread copies, whole boxes at a time; two warp groups compute, each its 64 rows.
// SM90: .maxntid 384, 1, 1
// SM90-COUNT-6: mbarrier.init.shared.b64
// SM90: fence.mbarrier_init.release.cluster
// SM90: setmaxnreg.dec.sync.aligned.u32 24
// SM90: mbarrier.try_wait.parity.shared.b64
// SM90: mbarrier.arrive.expect_tx.shared.b64
// SM90-COUNT-3: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
// SM90: setmaxnreg.inc.sync.aligned.u32 240
// SM90: wgmma.fence.sync.aligned;
// SM90-SAME: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// SM90-SAME: da, db, 1, 1, 1, 0, 1;
// SM90-SAME: wgmma.commit_group.sync.aligned
// SM90: wgmma.wait_group.sync.aligned 1
// SM90: @p mbarrier.arrive.shared.b64
// SM90: wgmma.wait_group.sync.aligned 0
// SM90: stmatrix.sync.aligned.m8n8.x4.shared.b16
// SM90: fence.proxy.async.shared::cta
// SM90: cp.async.bulk.tensor.2d.global.shared::cta.bulk_group

// A warp group copies, 16 bytes a thread at a time; each warp loads its factors.
// SM80: .maxntid 384, 1, 1
// SM80-NOT: setmaxnreg
// SM80: mbarrier.test_wait.parity.shared.b64
// SM80: cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16,
// SM80: cp.async.mbarrier.arrive.noinc.shared.b64
// SM80: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// SM80: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// SM80: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// SM80: bar.warp.sync
// SM80: @p mbarrier.arrive.shared.b64
// SM80: st.global.b32

// All waves copy a step ahead, through registers, and multiply, with 32 instructions for a step of K.
// LLVM puts the products first: a wave begins in the middle of the loop.
// GFX950: global_load_dwordx4
// GFX950: ds_read_b128
// GFX950-COUNT-32: v_mfma_f32_16x16x32_bf16
// GFX950-NOT: v_mfma
// GFX950: s_waitcnt vmcnt
// GFX950: ds_write_b128
// GFX950: s_barrier
// GFX950-NEXT: s_cbranch
// GFX950: global_load_dwordx4
// GFX950: global_store_
// GFX950: .private_segment_fixed_size: 0
tile.func @product(%a: memref<512x512xbf16>, %b: memref<512x512xbf16>, %c: memref<512x512xbf16>) grid 16 warps 8 {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %4 = arith.constant 4 : index
  %8 = arith.constant 8 : index
  %64 = arith.constant 64 : index
  %128 = arith.constant 128 : index
  %z = arith.constant 0.0 : f32
  %p = tile.program_id
  %i = arith.divui %p, %4 : index
  %j = arith.remui %p, %4 : index
  %m = arith.muli %i, %128 : index
  %n = arith.muli %j, %128 : index
  %ra = tile.alloc_shared swizzle = "xor" : !tile.shared<3x128x64xbf16>
  %rb = tile.alloc_shared swizzle = "xor" : !tile.shared<3x64x128xbf16>
  %rc = tile.alloc_shared swizzle = "xor" : !tile.shared<2x128x64xbf16>
  %none = tile.fill %z : f32 -> !tile.fragment<128x128xf32, acc>
  %sum = scf.for %k = %0 to %8 step %1 iter_args(%s = %none) -> (!tile.fragment<128x128xf32, acc>) {
    %kk = arith.muli %k, %64 : index
    tile.async_copy %a[%m, %kk], %ra stage %k : memref<512x512xbf16>, !tile.shared<3x128x64xbf16>
    tile.async_copy %b[%kk, %n], %rb stage %k : memref<512x512xbf16>, !tile.shared<3x64x128xbf16>
    tile.wait_async stage %k
    %t = tile.mma %ra, %rb, %s stage %k : !tile.shared<3x128x64xbf16>, !tile.shared<3x64x128xbf16>, !tile.fragment<128x128xf32, acc>
    tile.release stage %k
    scf.yield %t : !tile.fragment<128x128xf32, acc>
  }
  tile.store_fragment %sum, %c[%m, %n] through %rc : !tile.fragment<128x128xf32, acc>, memref<512x512xbf16>, !tile.shared<2x128x64xbf16>
  tile.return
}
