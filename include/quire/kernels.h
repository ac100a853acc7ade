/*
 * Quire's CUDA kernels as a C library: encode new rows of keys and values into compressed pages,
 * attend over such pages, attend over MLA rows, merge results. For any engine: device pointers,
 * strides and a stream come in, work is queued, nothing is allocated and nothing waited for. A CUDA
 * graph may capture every call. libquire_kernels.so is built by tools/gpu/run.sh.
 *
 * Set a struct to zero, then its struct_bytes to its sizeof, then what is wanted: so a program that
 * was built with an older header goes on working, and fields that it does not know are zero.
 *
 * *_supports() returns NULL for what the kernel takes, otherwise a static sentence that says why
 * not; it needs no GPU. The functions that queue work return 0, a positive error of the CUDA
 * runtime (cudaError_t), or QUIRE_UNSUPPORTED for what *_supports() refuses.
 *
 * All functions may be called by any thread; a workspace belongs to one call at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIRE_KERNELS_ABI 1
#define QUIRE_UNSUPPORTED (-1)

/* Kinds of numbers of rows. */
enum { QUIRE_F32 = 0, QUIRE_F16 = 1, QUIRE_BF16 = 2 };
/* What pages of quire_decode may hold besides: 8-bit floats, with a scale of one, one of each head
 * or one of each token. */
enum { QUIRE_FP8_E4M3 = 3, QUIRE_FP8_E5M2 = 4 };
enum { QUIRE_SCALE_ONE = 0, QUIRE_SCALE_HEAD = 1, QUIRE_SCALE_TOKEN = 2 };
/* Kinds of MLA rows: 1152, 656 and 584 bytes. */
enum { QUIRE_MLA_BF16 = 0, QUIRE_MLA_V32 = 1, QUIRE_MLA_V4 = 2 };

/* QUIRE_KERNELS_ABI of the library. */
int32_t quire_kernels_abi(void);

/* Bytes of the page of one block and KV head; 0: there is no such page. */
size_t quire_page_bytes(int32_t head_dim, int32_t block_tokens, int32_t k_bits, int32_t v_bits);

/* New rows to pages. */
typedef struct quire_encode {
    size_t struct_bytes;
    /* [n_tokens][kv_heads][head_dim]; NULL: this side of the pages stays as it is. */
    const void* k;
    const void* v;
    int64_t k_token_stride, k_head_stride, v_token_stride, v_head_stride; /* in numbers */
    const float* k_mean; /* [kv_heads][head_dim], taken off; NULL: nothing is */
    const float* v_mean; /* likewise */
    int32_t k_bits;      /* 2 to 8 */
    int32_t v_bits;
    int32_t element; /* QUIRE_F32 ... */
    int32_t n_tokens;
    int32_t kv_heads;
    int32_t head_dim;     /* 64, 80, 96, 128, 192 or 256 */
    int32_t block_tokens; /* 16, 32, 64 or 128 */
    int32_t reserved;
    /* [n_tokens] block * block_tokens + token in the block; negative: not written. No two alike. */
    const int64_t* slots;
    /* Page of block b and KV head h: pages + b * block_stride + h * head_stride, aligned to 32. */
    void* pages;
    int64_t n_blocks;
    int64_t block_stride; /* in bytes */
    int64_t head_stride;  /* in bytes */
    uint32_t* not_finite; /* counts rows with a NaN or an infinity, coded as zeros; NULL: none */
} quire_encode;

const char* quire_encode_supports(const quire_encode* params);
int quire_encode_queue(const quire_encode* params, void* stream);

/* Attention of a few new tokens a request over pages. Query i of request r stands at position
 * lengths[r] - n_queries + i and sees keys up to its own; lengths[r] is 0 (the request is left out)
 * or at least n_queries. The lse of a request left out is -infinity, its out stays. */
typedef struct quire_decode {
    size_t struct_bytes;
    const void*
        q;      /* [n_requests][n_queries][n_heads][head_dim], after RoPE; as out aligned to 16 */
    void* out;  /* the same shape */
    float* lse; /* [n_requests][n_queries][n_heads], natural logarithm; NULL: not wanted */
    int64_t q_token_stride, q_head_stride, out_token_stride, out_head_stride; /* in numbers */
    int32_t element;                                                          /* of q and out */
    int32_t n_requests;
    int32_t n_queries;
    int32_t n_heads;
    int32_t kv_heads;
    int32_t head_dim; /* 64, 80, 96, 128, 192 or 256 */
    int32_t block_tokens;
    int32_t k_bits;
    int32_t v_bits;
    int32_t window;         /* 0: all keys */
    float scale;            /* of the dot product */
    float softcap;          /* 0: none */
    const int32_t* lengths; /* [n_requests] keys */
    const int32_t* blocks;  /* [n_requests][table_stride] */
    int64_t table_stride;
    const void* pages; /* as in quire_encode */
    int64_t block_stride;
    int64_t head_stride;
    const float* v_mean; /* [kv_heads][head_dim], put on again; NULL: none */
    void* workspace;     /* quire_decode_workspace_bytes(), aligned to 128 */
    /* What pages hold: 0: codes; QUIRE_F16, QUIRE_BF16, QUIRE_FP8_E4M3 or QUIRE_FP8_E5M2: such
       numbers, K [head_dim][block_tokens], then V [block_tokens][head_dim], and k_bits and v_bits
       are not read. */
    int32_t page_numbers;
    /* Of pages of QUIRE_FP8_*: QUIRE_SCALE_ONE ...; those of tokens are f16 in the page, behind V,
       block_tokens for K, then as many for V. */
    int32_t page_scaling;
    const float* k_scales; /* [kv_heads], read with QUIRE_SCALE_HEAD only */
    const float* v_scales; /* likewise */
    /* 1: every query sees all lengths[r] keys, which may be fewer than queries: those of a part of
       the context before all of them. No window. */
    int32_t all_keys;
    int32_t reserved;
    int64_t n_blocks; /* of pages: a checked build looks that `blocks` are below it; 0: unknown */
} quire_decode;

const char* quire_decode_supports(const quire_decode* params);
/* Of the current device; 0 where there is none. Pointers are not looked at. */
size_t quire_decode_workspace_bytes(const quire_decode* params);
int quire_decode_queue(const quire_decode* params, void* stream);

/* Attention of many query tokens a request, chunks of prompts. Request r has n_r queries, tokens
 * first_tokens[r] to first_tokens[r + 1] of q; its query i stands at position lengths[r] - n_r + i
 * and sees keys up to its own, or all keys where all_keys is set. */
typedef struct quire_prefill {
    size_t struct_bytes;
    const void* q; /* [n_tokens][n_heads][head_dim], after RoPE; as out aligned to 16 */
    void* out;     /* the same shape */
    float* lse;    /* [n_tokens][n_heads], natural logarithm; NULL: not wanted */
    int64_t q_token_stride, q_head_stride, out_token_stride, out_head_stride; /* in numbers */
    int32_t element;                                                          /* of q and out */
    int32_t n_requests;
    int32_t n_tokens; /* of q */
    int32_t all_keys; /* 0: causal */
    int32_t n_heads;
    int32_t kv_heads;
    int32_t head_dim; /* 64, 96, 128 or 256 */
    int32_t block_tokens;
    int32_t page_numbers; /* as in quire_decode, and so are the fields from here on */
    int32_t k_bits;
    int32_t v_bits;
    int32_t window;
    float scale;
    float softcap;
    const int32_t* first_tokens; /* [n_requests + 1] */
    const int32_t* lengths;
    const int32_t* blocks;
    int64_t table_stride;
    const void* pages;
    int64_t block_stride;
    int64_t head_stride;
    const float* v_mean;
    void* workspace; /* quire_prefill_workspace_bytes(), aligned to 128 */
} quire_prefill;

const char* quire_prefill_supports(const quire_prefill* params);
size_t quire_prefill_workspace_bytes(const quire_prefill* params);
int quire_prefill_queue(const quire_prefill* params, void* stream);

/* Attention of a few new tokens a request where requests of a group share a prefix, whose keys are
 * read once for all of them. Group g has requests first_requests[g] to first_requests[g + 1]; the
 * prefix comes before the own keys of each. */
typedef struct quire_cascade {
    size_t struct_bytes;
    /* Over each request's own keys, of which there may be none; its workspace is not read, its
       window must be 0. */
    const quire_decode* own;
    const int32_t* first_requests; /* [n_groups + 1] */
    const int32_t* prefix_lengths; /* [n_groups] */
    const int32_t* prefix_blocks;  /* [n_groups][prefix_table_stride] */
    int64_t prefix_table_stride;
    void* workspace; /* quire_cascade_workspace_bytes(), aligned to 128 */
    int32_t n_groups;
    int32_t reserved;
} quire_cascade;

const char* quire_cascade_supports(const quire_cascade* params);
size_t quire_cascade_workspace_bytes(const quire_cascade* params);
int quire_cascade_queue(const quire_cascade* params, void* stream);

/* Attention of multi-head latent attention over paged rows, or over lists of rows. */
typedef struct quire_mla {
    size_t struct_bytes;
    const void* q; /* [n_requests][n_queries][n_heads][576, or 512 with QUIRE_MLA_V4] bf16 */
    void* out;     /* [n_requests][n_queries][n_heads][512] */
    float* lse;    /* as in quire_decode */
    int64_t q_token_stride, q_head_stride, out_token_stride, out_head_stride; /* in numbers */
    int32_t out_element; /* QUIRE_BF16 or QUIRE_F32 */
    int32_t rows;        /* QUIRE_MLA_BF16 ... */
    int32_t n_requests;
    int32_t n_queries;
    int32_t n_heads;
    int32_t block_tokens;
    float scale;
    int32_t reserved;
    const int32_t* lengths;
    const int32_t* blocks; /* [n_requests][table_stride]; not read where lists are given */
    int64_t table_stride;
    const int64_t* lists; /* [n_requests][list_stride] block * block_tokens + token; or NULL */
    int64_t list_stride;
    const void* pages; /* block b at pages + b * block_stride */
    int64_t n_blocks;
    int64_t block_stride; /* in bytes */
    void* workspace;      /* quire_mla_workspace_bytes(), aligned to 128 */
} quire_mla;

const char* quire_mla_supports(const quire_mla* params);
size_t quire_mla_workspace_bytes(const quire_mla* params);
int quire_mla_queue(const quire_mla* params, void* stream);

/* Results of attention over parts of the keys become the result over all of them. */
#define QUIRE_MERGE_PARTS_MAX 8
typedef struct quire_merge {
    size_t struct_bytes;
    void* out;  /* [n_tokens][n_heads][head_dim]; may be a part's of the same element and strides */
    float* lse; /* [n_tokens][n_heads], natural logarithm; NULL: not wanted */
    int64_t token_stride, head_stride; /* of out, in numbers */
    int32_t element;                   /* of out: QUIRE_F32 ... */
    int32_t part_element;              /* of all parts */
    int32_t n_parts;                   /* 1 to QUIRE_MERGE_PARTS_MAX */
    int32_t n_tokens;
    int32_t n_heads;
    int32_t head_dim; /* a multiple of 8 */
    /* Shapes as out and lse; where a part's lse is -inf it has nothing, and its row is not read. */
    const void* part_out[QUIRE_MERGE_PARTS_MAX];
    const float* part_lse[QUIRE_MERGE_PARTS_MAX];
    int64_t part_token_stride[QUIRE_MERGE_PARTS_MAX];
    int64_t part_head_stride[QUIRE_MERGE_PARTS_MAX];
} quire_merge;

const char* quire_merge_supports(const quire_merge* params);
int quire_merge_queue(const quire_merge* params, void* stream);

#ifdef __cplusplus
}
#endif
