/* One call of each routine of moao/batched.h in one precision: v 0 by the table, 1 strided, 2 by
 * pointers; x[0 .. 7] are the operands. Included once for each precision, see
 * tests/unit/test_library_batched.c. */

#define S(i) ((REAL *)x[i]), LD, STRIDE
#define Q(i) ((REAL *const *)px[i]), LD
#define T(i) batch_strided(x[i], LD, STRIDE)
#define SV(i) ((REAL *)x[i]), STRIDE
#define QV(i) ((REAL *const *)px[i])
#define CASE(op, table, ...)                                                                       \
    static status NAME(op)(int v) {                                                                \
        const REAL alpha = 2, beta = -1;                                                           \
        (void)alpha, (void)beta;                                                                   \
        return v == 0 ? (table) : v == 1 ? __VA_ARGS__;                                            \
    }

CASE(gemm,
     be->batch->gemm(ctx, TYPE, 'N', 'T', COUNT, dim(M), dim(N), dim(K), &alpha, T(0), T(1), &beta,
                     T(2)),
     CALL(gemm_strided_batched)(ctx, 'N', 'T', M, N, K, alpha, S(0), S(1), beta, S(2), COUNT)
     : CALL(gemm_batched)(ctx, 'N', 'T', M, N, K, alpha, Q(0), Q(1), beta, Q(2), COUNT))
CASE(syrk, be->batch->syrk(ctx, TYPE, 'L', 'T', COUNT, dim(N), dim(M), &alpha, T(0), &beta, T(1)),
     CALL(syrk_strided_batched)(ctx, 'L', 'T', N, M, alpha, S(0), beta, S(1), COUNT)
     : CALL(syrk_batched)(ctx, 'L', 'T', N, M, alpha, Q(0), beta, Q(1), COUNT))
CASE(trsm,
     be->batch->trsm(ctx, TYPE, 'R', 'L', 'T', 'N', COUNT, dim(M), dim(N), &alpha, T(0), T(1)),
     CALL(trsm_strided_batched)(ctx, 'R', 'L', 'T', 'N', M, N, alpha, S(0), S(1), COUNT)
     : CALL(trsm_batched)(ctx, 'R', 'L', 'T', 'N', M, N, alpha, Q(0), Q(1), COUNT))
CASE(trmm,
     be->batch->trmm(ctx, TYPE, 'L', 'U', 'N', 'U', COUNT, dim(M), dim(N), &alpha, T(0), T(1)),
     CALL(trmm_strided_batched)(ctx, 'L', 'U', 'N', 'U', M, N, alpha, S(0), S(1), COUNT)
     : CALL(trmm_batched)(ctx, 'L', 'U', 'N', 'U', M, N, alpha, Q(0), Q(1), COUNT))
CASE(potrf, be->batch->potrf(ctx, TYPE, 'L', COUNT, dim(N), T(0), dinfo),
     CALL(potrf_strided_batched)(ctx, 'L', N, S(0), info, COUNT)
     : CALL(potrf_batched)(ctx, 'L', N, Q(0), info, COUNT))
CASE(potri, be->batch->potri(ctx, TYPE, 'U', COUNT, dim(N), T(0), dinfo),
     CALL(potri_strided_batched)(ctx, 'U', N, S(0), NULL, COUNT)
     : CALL(potri_batched)(ctx, 'U', N, Q(0), info, COUNT))
CASE(poti, be->batch->poti(ctx, TYPE, 'L', COUNT, dim(N), T(0), dinfo),
     CALL(poti_strided_batched)(ctx, 'L', N, S(0), info, COUNT)
     : CALL(poti_batched)(ctx, 'L', N, Q(0), NULL, COUNT))
CASE(trtri, be->batch->trtri(ctx, TYPE, 'L', 'N', COUNT, dim(N), T(0), dinfo),
     CALL(trtri_strided_batched)(ctx, 'L', 'N', N, S(0), info, COUNT)
     : CALL(trtri_batched)(ctx, 'L', 'N', N, Q(0), info, COUNT))
CASE(lauum, be->batch->lauum(ctx, TYPE, 'L', COUNT, dim(N), T(0)),
     CALL(lauum_strided_batched)(ctx, 'L', N, S(0), COUNT)
     : CALL(lauum_batched)(ctx, 'L', N, Q(0), COUNT))
CASE(potrs, be->batch->potrs(ctx, TYPE, 'L', COUNT, dim(N), dim(K), T(0), T(1)),
     CALL(potrs_strided_batched)(ctx, 'L', N, K, S(0), S(1), COUNT)
     : CALL(potrs_batched)(ctx, 'L', N, K, Q(0), Q(1), COUNT))
CASE(posv, be->batch->posv(ctx, TYPE, 'L', COUNT, dim(N), dim(K), T(0), T(1), dinfo),
     CALL(posv_strided_batched)(ctx, 'L', N, K, S(0), S(1), info, COUNT)
     : CALL(posv_batched)(ctx, 'L', N, K, Q(0), Q(1), info, COUNT))
CASE(geqrf, be->lowrank->geqrf(ctx, TYPE, COUNT, dim(M), dim(N), T(0), T(1), dinfo),
     CALL(geqrf_strided_batched)(ctx, M, N, S(0), SV(1), info, COUNT)
     : CALL(geqrf_batched)(ctx, M, N, Q(0), QV(1), info, COUNT))
CASE(orgqr, be->lowrank->orgqr(ctx, TYPE, COUNT, dim(M), dim(N), dim(K), T(0), T(1)),
     CALL(orgqr_strided_batched)(ctx, M, N, K, S(0), SV(1), COUNT)
     : CALL(orgqr_batched)(ctx, M, N, K, Q(0), QV(1), COUNT))
CASE(ormqr,
     be->lowrank->ormqr(ctx, TYPE, 'L', 'T', COUNT, dim(M), dim(N), dim(K), T(0), T(1), T(2)),
     CALL(ormqr_strided_batched)(ctx, 'L', 'T', M, N, K, S(0), SV(1), S(2), COUNT)
     : CALL(ormqr_batched)(ctx, 'L', 'T', M, N, K, Q(0), QV(1), Q(2), COUNT))
CASE(qr,
     (work(BATCH_QR, TYPE, 0),
      be->lowrank->qr(ctx, TYPE, 'Q', COUNT, dim(M), dim(N), T(0), T(1), dinfo, room, lwork)),
     CALL(qr_strided_batched)(ctx, 'Q', M, N, S(0), S(1), info, COUNT)
     : CALL(qr_batched)(ctx, 'Q', M, N, Q(0), Q(1), info, COUNT))
CASE(gesvj,
     (work(BATCH_GESVJ, TYPE, 0),
      be->lowrank->gesvj(ctx, TYPE, 'U', 'S', NULL, COUNT, dim(M), dim(N), T(0), T(1), T(2), T(3),
                         NULL, dinfo, room, lwork)),
     CALL(gesvj_strided_batched)(ctx, 'U', 'S', M, N, S(0), SV(1), S(2), S(3), info, COUNT)
     : CALL(gesvj_batched)(ctx, 'U', 'S', M, N, Q(0), QV(1), Q(2), Q(3), info, COUNT))
CASE(rsvd,
     (work(BATCH_RSVD, TYPE, 4),
      be->lowrank->rsvd(ctx, TYPE, 'U', 'U', &(batch_cut){.kind = 'R', .norm = 'F', .most = 3}, 1,
                        1, 9, COUNT, dim(M), dim(N), T(0), T(1), T(2), T(3), drank, dinfo, room,
                        lwork)),
     CALL(rsvd_strided_batched)(ctx, 'U', 'U', M, N, 3, 1, 1, 9, S(0), SV(1), S(2), S(3), rank,
                                info, COUNT)
     : CALL(rsvd_batched)(ctx, 'U', 'U', M, N, 3, 1, 1, 9, Q(0), QV(1), Q(2), Q(3), rank, info,
                          COUNT))
CASE(ara,
     (work(BATCH_ARA, TYPE, N),
      be->lowrank->ara(ctx, TYPE, 'B',
                       &(batch_cut){0.1, NULL, 'R', 'F', N, NULL, false, 0, 0, NULL}, 9, COUNT,
                       dim(M), dim(N), T(0), T(1), T(2), drank, dinfo, room, lwork)),
     CALL(ara_strided_batched)(ctx, 'B', M, N, 0.1, 'R', N, 9, S(0), S(1), S(2), rank, info, COUNT)
     : CALL(ara_batched)(ctx, 'B', M, N, 0.1, 'R', N, 9, Q(0), Q(1), Q(2), rank, info, COUNT))
CASE(recompress,
     (work(BATCH_RECOMPRESS, TYPE, 6),
      be->lowrank->recompress(ctx, TYPE, 'R',
                              &(batch_cut){0.1, NULL, 'A', 'F', 5, NULL, false, 0, 0, NULL}, COUNT,
                              dim(M), dim(N), &alpha, (batch_dim){3, dka}, T(0), T(1), &beta,
                              (batch_dim){3, dkb}, T(2), T(3), drank, dinfo, room, lwork)),
     CALL(recompress_strided_batched)(ctx, 'R', M, N, 0.1, 'A', 5, alpha, ka, S(0), S(1), beta, kb,
                                      S(2), S(3), rank, info, COUNT)
     : CALL(recompress_batched)(ctx, 'R', M, N, 0.1, 'A', 5, alpha, ka, Q(0), Q(1), beta, kb, Q(2),
                                Q(3), rank, info, COUNT))

static const routine NAME(routines)[] = {{"gemm", NAME(gemm)},
                                         {"syrk", NAME(syrk)},
                                         {"trsm", NAME(trsm)},
                                         {"trmm", NAME(trmm)},
                                         {"potrf", NAME(potrf)},
                                         {"potri", NAME(potri)},
                                         {"poti", NAME(poti)},
                                         {"trtri", NAME(trtri)},
                                         {"lauum", NAME(lauum)},
                                         {"potrs", NAME(potrs)},
                                         {"posv", NAME(posv)},
                                         {"geqrf", NAME(geqrf)},
                                         {"orgqr", NAME(orgqr)},
                                         {"ormqr", NAME(ormqr)},
                                         {"qr", NAME(qr)},
                                         {"gesvj", NAME(gesvj)},
                                         {"rsvd", NAME(rsvd)},
                                         {"ara", NAME(ara)},
                                         {"recompress", NAME(recompress)}};

/* Products; A is x[0] x[1]^T or x[0], B x[2] x[3]^T or x[2], C x[4] x[5]^T or x[4]. */
static status NAME(product)(const char *kind, bool strided, char ta, char tb) {
    const REAL f = 2, g = -1;
    const double tol = TYPE == BACKEND_D ? 1e-13 : 1e-6;
    if (!strcmp(kind, "lld"))
        return strided ? CALL(gemm_lld_strided_batched)(ctx, ta, tb, M, N, K, f, ka, S(0), S(1), kb,
                                                        S(2), S(3), g, S(4), COUNT)
                       : CALL(gemm_lld_batched)(ctx, ta, tb, M, N, K, f, ka, Q(0), Q(1), kb, Q(2),
                                                Q(3), g, Q(4), COUNT);
    if (!strcmp(kind, "dld"))
        return strided ? CALL(gemm_dld_strided_batched)(ctx, ta, tb, M, N, K, f, S(0), kb, S(2),
                                                        S(3), g, S(4), COUNT)
                       : CALL(gemm_dld_batched)(ctx, ta, tb, M, N, K, f, Q(0), kb, Q(2), Q(3), g,
                                                Q(4), COUNT);
    if (!strcmp(kind, "ldd"))
        return strided ? CALL(gemm_ldd_strided_batched)(ctx, ta, tb, M, N, K, f, ka, S(0), S(1),
                                                        S(2), g, S(4), COUNT)
                       : CALL(gemm_ldd_batched)(ctx, ta, tb, M, N, K, f, ka, Q(0), Q(1), Q(2), g,
                                                Q(4), COUNT);
    if (!strcmp(kind, "lll"))
        return strided
                   ? CALL(gemm_lll_strided_batched)(ctx, ta, tb, M, N, K, f, ka, S(0), S(1), kb,
                                                    S(2), S(3), g, tol, 'R', N, rank, S(4), S(5),
                                                    info, COUNT)
                   : CALL(gemm_lll_batched)(ctx, ta, tb, M, N, K, f, ka, Q(0), Q(1), kb, Q(2), Q(3),
                                            g, tol, 'R', N, rank, Q(4), Q(5), info, COUNT);
    if (!strcmp(kind, "dll"))
        return strided
                   ? CALL(gemm_dll_strided_batched)(ctx, ta, tb, M, N, K, f, S(0), kb, S(2), S(3),
                                                    g, tol, 'R', N, rank, S(4), S(5), info, COUNT)
                   : CALL(gemm_dll_batched)(ctx, ta, tb, M, N, K, f, Q(0), kb, Q(2), Q(3), g, tol,
                                            'R', N, rank, Q(4), Q(5), info, COUNT);
    return strided ? CALL(gemm_ldl_strided_batched)(ctx, ta, tb, M, N, K, f, ka, S(0), S(1), S(2),
                                                    g, tol, 'R', N, rank, S(4), S(5), info, COUNT)
                   : CALL(gemm_ldl_batched)(ctx, ta, tb, M, N, K, f, ka, Q(0), Q(1), Q(2), g, tol,
                                            'R', N, rank, Q(4), Q(5), info, COUNT);
}

#undef S
#undef Q
#undef T
#undef SV
#undef QV
#undef CASE
