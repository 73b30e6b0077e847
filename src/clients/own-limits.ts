/** The different limits that clients have of their own, each pair once. */

const FIRST_SLOTS = 64

export class OwnLimits {
  size = 0
  #pairs = new Float64Array(FIRST_SLOTS)
  /** Open addressing: one more than the place of a pair; 0 is free. */
  #slots = new Uint32Array(FIRST_SLOTS)

  /** perMinute and perDay in turn. */
  get pairs(): Float64Array {
    return this.#pairs.subarray(0, 2 * this.size)
  }

  place(perMinute: number, perDay: number): number {
    if (this.size * 2 >= this.#slots.length) this.#grow()
    const slot = this.#slotOf(perMinute, perDay)
    const known = this.#slots[slot] ?? 0
    if (known !== 0) return known - 1
    this.#pairs[2 * this.size] = perMinute
    this.#pairs[2 * this.size + 1] = perDay
    this.#slots[slot] = ++this.size
    return this.size - 1
  }

  #slotOf(perMinute: number, perDay: number): number {
    const mask = this.#slots.length - 1
    const mixed = Math.imul(perMinute ^ (perDay % 0x7fffffff), 0x9e3779b1)
    for (let slot = (mixed ^ (mixed >>> 15)) & mask; ; slot = (slot + 1) & mask) {
      const place = this.#slots[slot] ?? 0
      if (place === 0) return slot
      const isSame =
        this.#pairs[2 * place - 2] === perMinute && this.#pairs[2 * place - 1] === perDay
      if (isSame) return slot
    }
  }

  #grow(): void {
    const pairs = new Float64Array(2 * this.#slots.length)
    pairs.set(this.#pairs)
    this.#pairs = pairs
    this.#slots = new Uint32Array(2 * this.#slots.length)
    for (let place = 0; place < this.size; place++)
      this.#slots[this.#slotOf(pairs[2 * place] ?? 0, pairs[2 * place + 1] ?? 0)] = place + 1
  }
}
