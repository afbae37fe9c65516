/* What HSS products are compared with, on the same tree and numbers: the scheme of Feldmann, "GPU
 * accelerated HSS matrix multiplication in Julia", written anew from the paper's words (section 3), and
 * cuBLAS's grouped products. */
#ifndef MOAO_BENCH_HSS_RIVALS_CUH
#define MOAO_BENCH_HSS_RIVALS_CUH

#include "bench_gpu.cuh"
#include "linalg/hier/hss.h"

/* One product of a launch: C := A B or C += A B. */
struct product {
    const double *a, *b;
    double *c;
    int64_t lda, ldb, ldc;
    int m, k;
    bool trans;
};

/* The launches of the paper's execution: products in a launch write different places, so that a node
 * with two children, or a sum of two products, takes two launches. */
struct paper_launch {
    bool add;
    std::vector<product> of;
};

struct rival_memory {
    double *up, *down, *y;
    int64_t ldy;
};

/* Launches of Y = A X from the plan of ours; what ours does in one launch becomes up to two. split: also
 * the two children of an inner node of the up pass, as the paper has it. */
static std::vector<paper_launch> launches_of(const hss *h, const double *x, int64_t ldx,
                                             const rival_memory &w, bool split) {
    const plan *p = &h->straight;
    const int levels = h->t.levels;
    std::vector<paper_launch> all;
    for (int l = 0; l < p->launches; l++) {
        const int64_t end = l + 1 < p->launches ? p->first[l + 1] : p->sums;
        paper_launch part[2] = {{false, {}}, {true, {}}};
        for (int64_t b = p->first[l]; b < end; b++) {
            const hier_gemm_sum &q = p->sum[b];
            const int64_t ld = h->ranks;
            double *c = l < levels ? w.up + q.row : l + 1 < p->launches ? w.down + q.row : w.y + q.row;
            const int64_t ldc = l + 1 < p->launches ? ld : w.ldy;
            for (int e = 0; e < q.terms; e++) {
                const hier_gemm_term &t = p->term[q.first + e];
                const double *from = t.from == 0 ? x : t.from == 1 ? w.up : w.down;
                product one = {(const double *)t.a, from + t.row, c, t.lda, t.from == 0 ? ldx : ld, ldc,
                               q.m, t.k, t.trans != 0};
                if (split && l > 0 && l < levels) { /* up pass above the leaves: child by child */
                    const int64_t level = levels - l;
                    const nested_level &v = h->level[level];
                    const int64_t node = std::upper_bound(v.up, v.up + v.nodes, q.row) - v.up - 1;
                    const int k1 = (int)h->level[level + 1].rank[2 * node];
                    product two = one;
                    one.k = k1, two.k -= k1, two.a += k1, two.b += k1;
                    part[0].of.push_back(one), part[1].of.push_back(two);
                } else {
                    part[e].of.push_back(one);
                }
            }
        }
        for (const paper_launch &one : part)
            if (!one.of.empty())
                all.push_back(one);
    }
    return all;
}

/* --- the paper's kernel: a block of 1024 threads for each chunk of 1024 outputs, a thread an output, no
 * shared memory; its task says which product and which chunk. */
struct task {
    int product, chunk;
};

__global__ void __launch_bounds__(1024)
    paper_kernel(const product *all, const task *tasks, int cols, bool add) {
    const task t = tasks[blockIdx.x];
    const product p = all[t.product];
    const int64_t out = (int64_t)t.chunk * 1024 + threadIdx.x;
    const int64_t i = out % p.m, j = out / p.m;
    if (j >= cols)
        return;
    double sum = 0;
    if (p.trans)
        for (int k = 0; k < p.k; k++)
            sum += p.a[k + i * p.lda] * p.b[k + j * p.ldb];
    else
        for (int k = 0; k < p.k; k++)
            sum += p.a[i + k * p.lda] * p.b[k + j * p.ldb];
    double *c = p.c + i + j * p.ldc;
    *c = add ? *c + sum : sum;
}

/* Transposed factors (V', W') are stored as they are used, as the paper's flattened tree has them. */
__global__ void turn_kernel(const product *all, double *const *to) {
    const product p = all[blockIdx.x];
    for (int e = threadIdx.x; e < p.m * p.k; e += blockDim.x)
        to[blockIdx.x][e] = p.a[e / p.m + (int64_t)(e % p.m) * p.lda];
}

struct paper_plan {
    struct step {
        product *of;
        task *tasks;
        int blocks;
        bool add;
    };
    std::vector<step> steps;
    std::vector<void *> memory;
    void open(const std::vector<paper_launch> &all, int cols) {
        for (paper_launch l : all) {
            std::vector<task> tasks;
            std::vector<double *> to;
            for (size_t i = 0; i < l.of.size(); i++) {
                const int64_t chunks = ((int64_t)l.of[i].m * cols + 1023) / 1024;
                for (int64_t c = 0; c < chunks; c++)
                    tasks.push_back({(int)i, (int)c});
            }
            step s = {(product *)keep(l.of.data(), sizeof(product) * l.of.size()),
                      (task *)keep(tasks.data(), sizeof(task) * tasks.size()), (int)tasks.size(), l.add};
            if (!l.of.empty() && l.of[0].trans) {
                for (product &p : l.of)
                    to.push_back((double *)keep(NULL, sizeof(double) * (size_t)p.m * (size_t)p.k + 8));
                double **on = (double **)keep(to.data(), sizeof(double *) * to.size());
                turn_kernel<<<(unsigned)l.of.size(), 256, 0, stream>>>(s.of, on);
                CU(cudaStreamSynchronize(stream));
                for (size_t i = 0; i < l.of.size(); i++)
                    l.of[i].a = to[i], l.of[i].lda = l.of[i].m, l.of[i].trans = false;
                s.of = (product *)keep(l.of.data(), sizeof(product) * l.of.size());
            }
            steps.push_back(s);
        }
    }
    void *keep(const void *host, size_t bytes) {
        void *p = bench_alloc(bytes);
        if (host)
            CU(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
        memory.push_back(p);
        return p;
    }
    void run(int cols) const {
        for (const step &s : steps)
            if (s.blocks)
                paper_kernel<<<(unsigned)s.blocks, 1024, 0, stream>>>(s.of, s.tasks, cols, s.add);
    }
    ~paper_plan() {
        for (void *p : memory)
            cudaFree(p);
    }
};

/* --- cublasDgemmGroupedBatched: products of one size are a group */
struct grouped_plan {
    struct step {
        std::vector<cublasOperation_t> ta, tb;
        std::vector<int> m, n, k, lda, ldb, ldc, size;
        std::vector<double> alpha, beta;
        double **a, **b, **c;
        int groups;
    };
    std::vector<step> steps;
    void open(const std::vector<paper_launch> &all, int cols) {
        for (paper_launch l : all) {
            step s = {};
            std::vector<const double *> a, b;
            std::vector<double *> c;
            std::stable_sort(l.of.begin(), l.of.end(), [](const product &p, const product &q) {
                return p.m != q.m ? p.m < q.m : p.k != q.k ? p.k < q.k : p.lda < q.lda;
            });
            for (size_t i = 0; i < l.of.size(); i++) {
                const product &p = l.of[i];
                if (p.m == 0 || p.k == 0)
                    continue;
                if (s.groups == 0 || s.m.back() != p.m || s.k.back() != p.k || s.lda.back() != p.lda) {
                    s.groups++;
                    s.ta.push_back(p.trans ? CUBLAS_OP_T : CUBLAS_OP_N), s.tb.push_back(CUBLAS_OP_N);
                    s.m.push_back(p.m), s.n.push_back(cols), s.k.push_back(p.k);
                    s.lda.push_back((int)p.lda), s.ldb.push_back((int)p.ldb), s.ldc.push_back((int)p.ldc);
                    s.alpha.push_back(1), s.beta.push_back(l.add ? 1 : 0), s.size.push_back(0);
                }
                s.size.back()++;
                a.push_back(p.a), b.push_back(p.b), c.push_back(p.c);
            }
            s.a = up(a), s.b = up(b), s.c = up(c);
            steps.push_back(s);
        }
    }
    template <class P> double **up(const std::vector<P> &v) {
        double **p = (double **)bench_alloc(sizeof(P) * v.size());
        CU(cudaMemcpy(p, v.data(), sizeof(P) * v.size(), cudaMemcpyHostToDevice));
        return p;
    }
    void run() {
        for (step &s : steps)
            if (s.groups)
                bench_check(cublasDgemmGroupedBatched(
                                blas, s.ta.data(), s.tb.data(), s.m.data(), s.n.data(), s.k.data(),
                                s.alpha.data(), (const double *const *)s.a, s.lda.data(),
                                (const double *const *)s.b, s.ldb.data(), s.beta.data(), s.c,
                                s.ldc.data(), s.groups, s.size.data()) == CUBLAS_STATUS_SUCCESS,
                            "cublasDgemmGroupedBatched", "", __FILE__, __LINE__);
    }
    ~grouped_plan() {
        for (step &s : steps)
            cudaFree(s.a), cudaFree(s.b), cudaFree(s.c);
    }
};

#endif
