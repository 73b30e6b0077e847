/** Frees the memory of large pieces of bodies at once: the collector waits until tens of MiB of them have come together, and then looks through the whole heap. */

/**
 * Returns what the socket or stream has to call once it has written the piece, which must not be used afterwards. undefined: the
 * piece is part of a larger block, which others may use.
 */
export function freeWhenWritten({ buffer, length }: Buffer) {
  if (!(buffer instanceof ArrayBuffer) || buffer.byteLength !== length) return undefined
  return (error?: Error | null): void => {
    // What could not be written may still be held by the system.
    if (!error) buffer.transfer(0)
  }
}
