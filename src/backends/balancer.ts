/** Takes the backends in turn and leaves out, for a moment, those that could not be connected to. */

const restMs = 1_000

export interface BackendRotation<Backend> {
  readonly size: number
  /** The next backend in turn; another than `avoid` where there is one. */
  next(avoid?: Backend): Backend
  /** The backend could not be connected to: the others are preferred for a second. */
  failed(backend: Backend): void
}

/** Throws when the list is empty. */
export function createBackendRotation<Backend>(
  backends: readonly Backend[],
): BackendRotation<Backend> {
  const [first] = backends
  if (first === undefined) throw new Error('a forwarder needs at least one backend URL')
  const restsUntilMs = new Map<Backend, number>()
  let turn = 0

  const isResting = (backend: Backend): boolean => {
    const untilMs = restsUntilMs.get(backend)
    if (untilMs === undefined) return false
    if (untilMs > performance.now()) return true
    restsUntilMs.delete(backend)
    return false
  }

  return {
    size: backends.length,
    next: (avoid) => {
      if (backends.length === 1) return first
      let fallback: Backend | undefined
      for (let tried = 0; tried < backends.length; tried++) {
        const backend = backends[turn++ % backends.length] ?? first
        if (backend === avoid) continue
        if (restsUntilMs.size === 0 || !isResting(backend)) return backend
        fallback ??= backend
      }
      return fallback ?? first
    },
    failed: (backend) => void restsUntilMs.set(backend, performance.now() + restMs),
  }
}
