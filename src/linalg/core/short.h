/* Names of the library without moao_, for this project's own sources: the compiler includes this
 * file before each of them (-include, see the Makefile). Programs of others use the headers in
 * include/moao alone. */
#ifndef MOAO_SHORT_H
#define MOAO_SHORT_H

#include "moao/backend.h"
#include "moao/backend_batch.h"
#include "moao/backend_fp16.h"
#include "moao/backend_group.h"
#include "moao/backend_hier.h"
#include "moao/backend_lowrank.h"
#include "moao/backend_random.h"
#include "moao/backend_sparse.h"
#include "moao/backend_split.h"
#include "moao/backend_toeplitz.h"
#include "moao/clones.h"
#include "moao/cpu_threads.h"
#include "moao/fp16_factor.h"
#include "moao/fp16_gemm.h"
#include "moao/hier.h"
#include "moao/status.h"
#include "moao/tlr.h"
#include "moao/toeplitz.h"

#define BACKEND_C MOAO_BACKEND_C
#define BACKEND_D MOAO_BACKEND_D
#define BACKEND_GEMM MOAO_BACKEND_GEMM
#define BACKEND_HOST_DEVICE MOAO_BACKEND_HOST_DEVICE
#define BACKEND_IDENTITY MOAO_BACKEND_IDENTITY
#define BACKEND_LAUUM MOAO_BACKEND_LAUUM
#define BACKEND_POSV MOAO_BACKEND_POSV
#define BACKEND_POTI MOAO_BACKEND_POTI
#define BACKEND_POTRF MOAO_BACKEND_POTRF
#define BACKEND_POTRI MOAO_BACKEND_POTRI
#define BACKEND_POTRS MOAO_BACKEND_POTRS
#define BACKEND_REACH MOAO_BACKEND_REACH
#define BACKEND_RESERVE MOAO_BACKEND_RESERVE
#define BACKEND_S MOAO_BACKEND_S
#define BACKEND_SYMM MOAO_BACKEND_SYMM
#define BACKEND_SYR2K MOAO_BACKEND_SYR2K
#define BACKEND_SYRK MOAO_BACKEND_SYRK
#define BACKEND_TRMM MOAO_BACKEND_TRMM
#define BACKEND_TRSM MOAO_BACKEND_TRSM
#define BACKEND_TRTRI MOAO_BACKEND_TRTRI
#define BACKEND_Z MOAO_BACKEND_Z
#define BATCH_ARA MOAO_BATCH_ARA
#define BATCH_ARA_SHARE MOAO_BATCH_ARA_SHARE
#define BATCH_GESVJ MOAO_BATCH_GESVJ
#define BATCH_MAX MOAO_BATCH_MAX
#define BATCH_ORTH_MAX MOAO_BATCH_ORTH_MAX
#define BATCH_QR MOAO_BATCH_QR
#define BATCH_RECOMPRESS MOAO_BATCH_RECOMPRESS
#define BATCH_RSVD MOAO_BATCH_RSVD
#define BATCH_SUM_MAX MOAO_BATCH_SUM_MAX
#define BATCH_SVD_MAX MOAO_BATCH_SVD_MAX
#define BATCH_SWEEPS_MAX MOAO_BATCH_SWEEPS_MAX
#define BATCH_WIDE_MAX MOAO_BATCH_WIDE_MAX
#define CLONES MOAO_CLONES
#define HIER_CAUCHY MOAO_HIER_CAUCHY
#define HIER_EXPONENTIAL MOAO_HIER_EXPONENTIAL
#define HIER_GAUSSIAN MOAO_HIER_GAUSSIAN
#define HIER_OPERANDS MOAO_HIER_OPERANDS
#define FP16_ALL MOAO_FP16_ALL
#define FP16_DEPTH MOAO_FP16_DEPTH
#define FP16_FIRST MOAO_FP16_FIRST
#define FP16_MOST_PRODUCTS MOAO_FP16_MOST_PRODUCTS
#define FP16_OTHERS MOAO_FP16_OTHERS
#define HIER_DENSE MOAO_HIER_DENSE
#define HIER_FUSED MOAO_HIER_FUSED
#define HIER_H2 MOAO_HIER_H2
#define HIER_HSS MOAO_HIER_HSS
#define HIER_TOEPLITZ MOAO_HIER_TOEPLITZ
#define SPLIT_EXPONENT MOAO_SPLIT_EXPONENT
#define SPLIT_STEP MOAO_SPLIT_STEP
#define SPLIT_WIDEST MOAO_SPLIT_WIDEST
#define TLR_COMPRESS MOAO_TLR_COMPRESS
#define TLR_CORES MOAO_TLR_CORES
#define TLR_DENSE MOAO_TLR_DENSE
#define TLR_DENSE_TILES MOAO_TLR_DENSE_TILES
#define TLR_DIVIDE MOAO_TLR_DIVIDE
#define TLR_EMPTY MOAO_TLR_EMPTY
#define TLR_ENTRIES MOAO_TLR_ENTRIES
#define TLR_KD MOAO_TLR_KD
#define TLR_LARGE MOAO_TLR_LARGE
#define TLR_LOWRANK MOAO_TLR_LOWRANK
#define TLR_NATURAL MOAO_TLR_NATURAL
#define TLR_PIVOTS MOAO_TLR_PIVOTS
#define TLR_SETTLE MOAO_TLR_SETTLE
#define TLR_SMALL MOAO_TLR_SMALL
#define TLR_STEPS MOAO_TLR_STEPS
#define TOEPLITZ_D MOAO_TOEPLITZ_D
#define TOEPLITZ_FP16 MOAO_TOEPLITZ_FP16
#define TOEPLITZ_S MOAO_TOEPLITZ_S
typedef moao_backend backend;
#define backend_batch moao_backend_batch
#define backend_cpu moao_backend_cpu
#define backend_ctx moao_backend_ctx
#define backend_f16 moao_backend_f16
#define backend_factor_op moao_backend_factor_op
#define backend_filter moao_backend_filter
#define backend_fp16 moao_backend_fp16
#define backend_fp16_exponent moao_backend_fp16_exponent
#define backend_gather_op moao_backend_gather_op
#define backend_gemm_op moao_backend_gemm_op
#define backend_get moao_backend_get
#define backend_group moao_backend_group
#define backend_group_id moao_backend_group_id
#define backend_hier moao_backend_hier
#define backend_lauum_op moao_backend_lauum_op
#define backend_link moao_backend_link
#define backend_lowrank moao_backend_lowrank
#define backend_matcov moao_backend_matcov
#define backend_mirror_op moao_backend_mirror_op
#define backend_op moao_backend_op
#define backend_philox moao_backend_philox
#define backend_posv_op moao_backend_posv_op
#define backend_potrs_op moao_backend_potrs_op
#define backend_psf moao_backend_psf
#define backend_random moao_backend_random
#define backend_rows moao_backend_rows
#define backend_size moao_backend_size
#define backend_sparse moao_backend_sparse
#define backend_split_ops moao_backend_split_ops
#define backend_symm_op moao_backend_symm_op
#define backend_syr2k_op moao_backend_syr2k_op
#define backend_syrk_op moao_backend_syrk_op
#define backend_toeplitz moao_backend_toeplitz
#define backend_toeplitz_plan moao_backend_toeplitz_plan
#define backend_tri_op moao_backend_tri_op
#define backend_trsm_multi_op moao_backend_trsm_multi_op
#define backend_trtri_op moao_backend_trtri_op
#define backend_type moao_backend_type
#define batch_cut moao_batch_cut
#define batch_dim moao_batch_dim
#define batch_factor_op moao_batch_factor_op
#define batch_gather moao_batch_gather
#define batch_gather_op moao_batch_gather_op
#define batch_gemm_op moao_batch_gemm_op
#define batch_lauum_op moao_batch_lauum_op
#define batch_least moao_batch_least
#define batch_mat moao_batch_mat
#define batch_op moao_batch_op
#define batch_part moao_batch_part
#define batch_pointers moao_batch_pointers
#define batch_posv_op moao_batch_posv_op
#define batch_potrs_op moao_batch_potrs_op
#define batch_scatter moao_batch_scatter
#define batch_scatter_op moao_batch_scatter_op
#define batch_size moao_batch_size
#define batch_strided moao_batch_strided
#define batch_syrk_op moao_batch_syrk_op
#define batch_tri_op moao_batch_tri_op
#define batch_trtri_op moao_batch_trtri_op
#define blas_alone moao_blas_alone
#define blas_together moao_blas_together
typedef moao_hier format;
#define fp16_cast_pieces_op moao_fp16_cast_pieces_op
#define fp16_cast_to_double_op moao_fp16_cast_to_double_op
#define fp16_cast_to_fp16_op moao_fp16_cast_to_fp16_op
#define fp16_cast_to_single_op moao_fp16_cast_to_single_op
#define fp16_factor moao_fp16_factor
#define fp16_factor_begin moao_fp16_factor_begin
#define fp16_factor_bytes moao_fp16_factor_bytes
#define fp16_factor_choose moao_fp16_factor_choose
#define fp16_factor_close moao_fp16_factor_close
#define fp16_factor_defaults moao_fp16_factor_defaults
#define fp16_factor_end moao_fp16_factor_end
#define fp16_factor_exponent moao_fp16_factor_exponent
#define fp16_factor_flops moao_fp16_factor_flops
#define fp16_factor_make moao_fp16_factor_make
#define fp16_factor_make_work moao_fp16_factor_make_work
#define fp16_factor_open moao_fp16_factor_open
#define fp16_factor_options moao_fp16_factor_options
#define fp16_factor_panel moao_fp16_factor_panel
#define fp16_factor_panel_work moao_fp16_factor_panel_work
#define fp16_factor_pieces moao_fp16_factor_pieces
#define fp16_factor_share moao_fp16_factor_share
#define fp16_factor_solve moao_fp16_factor_solve
#define fp16_factor_solve_work moao_fp16_factor_solve_work
#define fp16_factor_three moao_fp16_factor_three
#define fp16_gemm moao_fp16_gemm
#define fp16_gemm_op moao_fp16_gemm_op
#define fp16_gemm_part moao_fp16_gemm_part
#define fp16_gemm_rounded_op moao_fp16_gemm_rounded_op
#define fp16_join_op moao_fp16_join_op
#define fp16_max_abs_op moao_fp16_max_abs_op
#define fp16_pair moao_fp16_pair
#define fp16_piece moao_fp16_piece
#define fp16_product moao_fp16_product
#define fp16_products moao_fp16_products
#define fp16_sample moao_fp16_sample
#define fp16_split_op moao_fp16_split_op
#define fp16_squares_op moao_fp16_squares_op
#define hier_apply moao_hier_apply
#define hier_apply_kept moao_hier_apply_kept
#define hier_blocks moao_hier_blocks
#define hier_bytes moao_hier_bytes
#define hier_chebyshev_op moao_hier_chebyshev_op
#define hier_check moao_hier_check
#define hier_close moao_hier_close
#define hier_compress moao_hier_compress
#define hier_describe moao_hier_describe
#define hier_entries_op moao_hier_entries_op
#define hier_factor moao_hier_factor
#define hier_fused moao_hier_fused
#define hier_fused_lists moao_hier_fused_lists
#define hier_fused_op moao_hier_fused_op
#define hier_gemm_sum moao_hier_gemm_sum
#define hier_gemm_sums moao_hier_gemm_sums
#define hier_gemm_sums_op moao_hier_gemm_sums_op
#define hier_gemm_term moao_hier_gemm_term
#define hier_id_op moao_hier_id_op
#define hier_info moao_hier_info
#define hier_keep moao_hier_keep
#define hier_kept_bytes moao_hier_kept_bytes
#define hier_kernel moao_hier_kernel
#define hier_kind moao_hier_kind
#define hier_load moao_hier_load
#define hier_open moao_hier_open
#define hier_operand moao_hier_operand
#define hier_options moao_hier_options
#define hier_part moao_hier_part
#define hier_parts moao_hier_parts
#define hier_points_close moao_hier_points_close
#define hier_points_open moao_hier_points_open
#define hier_solve moao_hier_solve
#define hier_solve_workspace moao_hier_solve_workspace
#define hier_source moao_hier_source
#define hier_toeplitz_values moao_hier_toeplitz_values
#define hier_workspace moao_hier_workspace
#define lowrank_ara_op moao_lowrank_ara_op
#define lowrank_geqrf_op moao_lowrank_geqrf_op
#define lowrank_gesvj_op moao_lowrank_gesvj_op
#define lowrank_orgqr_op moao_lowrank_orgqr_op
#define lowrank_ormqr_op moao_lowrank_ormqr_op
#define lowrank_qr_op moao_lowrank_qr_op
#define lowrank_recompress_op moao_lowrank_recompress_op
#define lowrank_rsvd_op moao_lowrank_rsvd_op
#define mem_alloc moao_mem_alloc
#define sparse_filter_op moao_sparse_filter_op
#define sparse_times_op moao_sparse_times_op
#define split_block moao_split_block
#define split_blocks_op moao_split_blocks_op
#define split_column moao_split_column
#define split_columns_op moao_split_columns_op
#define split_exponent_op moao_split_exponent_op
#define split_halve_op moao_split_halve_op
#define split_narrow_op moao_split_narrow_op
#define split_pack moao_split_pack
#define split_pack_op moao_split_pack_op
#define split_part moao_split_part
#define split_place moao_split_place
#define split_products moao_split_products
#define split_segment moao_split_segment
#define split_squares_op moao_split_squares_op
#define split_sum_op moao_split_sum_op
#define split_take_op moao_split_take_op
#define split_task moao_split_task
#define split_widen_op moao_split_widen_op
typedef moao_status status;
#define status_adopt moao_status_adopt
#define status_clear moao_status_clear
#define status_exit_code moao_status_exit_code
#define status_fail moao_status_fail
#define status_message moao_status_message
#define status_set moao_status_set
#define split_run moao_split_run
typedef moao_tlr tlr;
#define tlr_apply moao_tlr_apply
#define tlr_build moao_tlr_build
#define tlr_close moao_tlr_close
#define tlr_condition moao_tlr_condition
#define tlr_copy moao_tlr_copy
#define tlr_expand moao_tlr_expand
#define tlr_factor moao_tlr_factor
#define tlr_fill moao_tlr_fill
#define tlr_gemm moao_tlr_gemm
#define tlr_gemm_dense moao_tlr_gemm_dense
#define tlr_kind moao_tlr_kind
#define tlr_layout moao_tlr_layout
#define tlr_layout_free moao_tlr_layout_free
#define tlr_layout_plain moao_tlr_layout_plain
#define tlr_layout_points moao_tlr_layout_points
#define tlr_logdet moao_tlr_logdet
#define tlr_logdet_error moao_tlr_logdet_error
#define tlr_options moao_tlr_options
#define tlr_order moao_tlr_order
#define tlr_points moao_tlr_points
#define tlr_procs moao_tlr_procs
#define tlr_report moao_tlr_report
#define tlr_rescue moao_tlr_rescue
#define tlr_set_split moao_tlr_set_split
#define tlr_solve moao_tlr_solve
#define tlr_source moao_tlr_source
#define tlr_statistics moao_tlr_statistics
#define tlr_stats moao_tlr_stats
#define tlr_syrk moao_tlr_syrk
#define tlr_syrk_dense moao_tlr_syrk_dense
#define tlr_tile moao_tlr_tile
#define tlr_tile_at moao_tlr_tile_at
#define tlr_trsm moao_tlr_trsm
#define toeplitz_pair moao_toeplitz_pair
#define toeplitz_shape moao_toeplitz_shape
#define toeplitz_shape_ok moao_toeplitz_shape_ok
#define toeplitz_type moao_toeplitz_type
#define toeplitz_values_ok moao_toeplitz_values_ok

#define TRY MOAO_TRY

/* mem_alloc of `count` elements for ptr. */
#define ALLOC(ptr, count, what) mem_alloc((void **)&(ptr), (count), sizeof *(ptr), (what))

#endif
