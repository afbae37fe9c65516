/* Checksum of files. Local. */
#ifndef MOAO_CRC_H
#define MOAO_CRC_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 (polynomial 0xEDB88320, as in zip and png) of what came before, whose value is `crc` (0 at
 * the start), and of n more bytes. */
uint32_t crc_update(uint32_t crc, const void *data, size_t n);

#endif
