/**
 * What truly happened, and the invariants. The ledger sees every call as the authority carries it out, every answer as it
 * reaches a process and every decision as a request gets it; it throws at the first that breaks the protocol.
 */
import type { Admission, QuotaDecision, QuotaView } from '../../src/core/quota/decision.ts'
import type { Statement, TakeReply, TakeRequest, WindowReply } from '../../src/state/quota.ts'
import { DAY_MS, MINUTE_MS } from '../../src/config/time.ts'
import type { Limits } from '../../src/config/config.ts'
import type { ClientState } from '../../src/state/memory/transition.ts'

export class Violation extends Error {
  readonly invariant: string
  constructor(invariant: string, detail: string) {
    super(`${invariant}: ${detail}`)
    this.name = 'Violation'
    this.invariant = invariant
  }
}

const windows = ['minute', 'day'] as const
type Window = (typeof windows)[number]
/** The store rounds its time up, and where a machine was suspended for less than 4 ms its clock tells that with the next time only. */
const ROUNDING_MS = 5
const limitOf = (limits: Limits, window: Window): number =>
  window === 'minute' ? limits.perMinute : limits.perDay
const UNUSED = { index: -1, taken: 0, used: 0, limit: 0, resetMs: 0 }
const lengthMs = { minute: MINUTE_MS, day: DAY_MS }

/** One holder as the authority must have him in its books. */
interface Entry {
  sequence: number
  readonly minute: Statement
  readonly day: Statement
  /** What the latest call brought for requests that waited. */
  readonly spent: number
  /**
   * Carried out again, or after a newer one, once the numbers that would have shown it were forgotten with their day; or come back
   * with an old copy.
   */
  readonly isOfYesterday: boolean
}

/** One client. */
interface Account {
  /** Admitted and not given back, by window. */
  readonly admitted: Record<Window, Map<number, number>>
  readonly book: Map<string, Entry>
  readonly current: Record<Window, typeof UNUSED>
  /** How often the window that runs was reset; admissions are counted since. */
  readonly resets: Record<Window, number>
  /** Of the newest request. */
  limits?: Limits
  /** Requests without an answer. */
  waiting: number
  /** In order, those given back included. */
  readonly admissions: { readonly limits: Limits; readonly of: Record<Window, number> }[]
  /** The resets that each admission came after. */
  readonly resetsBefore: WeakMap<QuotaDecision, Record<Window, number>>
}

/** The limits of a call, and how many were admitted when it was carried out. */
interface Asked {
  readonly limits: Limits
  readonly admissions: number
}

/** By client: what an authority has in its books. */
export type Books = ReadonlyMap<string, Pick<Account, 'book' | 'current'>>

/** One process. */
export interface Witness {
  readonly id: string
  /** Admitted by it and not given back: `client window index`. */
  readonly admitted: Map<string, number>
  /** By client: the latest reply of the authority. */
  readonly known: Map<
    string,
    {
      readonly minute: WindowReply
      readonly day: WindowReply
      readonly clockMs: number
      readonly asked: Asked | undefined
    }
  >
  readonly inFlight: Set<string>
  /** By process: the number of its newest call. */
  readonly newest: Map<string, number>
}

/** A process, and its requests without an answer. */
export interface Holder {
  readonly witness: Witness
  readonly isDead: boolean
  readonly undecided: number
}

export const createWitness = (id: string): Witness => ({
  id,
  admitted: new Map(),
  known: new Map(),
  inFlight: new Set(),
  newest: new Map(),
})

const createTotals = () => ({
  offered: 0,
  admitted: 0,
  refused: 0,
  unavailable: 0,
  /** Requests that waited for a call which had no answer in time. */
  heldUp: 0,
  degraded: 0,
  givenBack: 0,
  calls: 0,
  /** Calls for tokens that brought none. */
  vain: 0,
  /** Notices to all processes. */
  notices: 0,
  minutes: 0,
  days: 0,
})
export type Totals = ReturnType<typeof createTotals>

export interface Rules {
  /** Nobody decides without the authority, and it forgets nothing: then no limit is ever exceeded. */
  readonly isExact: boolean
  /** Nothing is late, lost or handed back: nobody is refused while these have tokens left. */
  readonly prompt?: () => readonly Holder[]
  /** One process: every number it tells is exact. */
  readonly isAlone: boolean
  /** A process forgets clients it still has requests of. */
  readonly forgets: boolean
  /** Processes may miss notices: then what they say is absent at times. */
  readonly missesNotices?: boolean
  /** No request waits longer, pauses of its process apart. */
  readonly waitsAtMostMs: number
}

/** Of a window. */
export interface Lost {
  /** Losses of data that were found out in it. */
  readonly times: number
  /** Granted before all who live had spoken again. */
  readonly blind: number
  /** Taken by processes that had died, as far as nobody who lived was told of it. */
  readonly gone: number
}

/** Of a client, since the authority has lost data of it. */
interface Loss {
  /** Nobody has called yet. */
  isUnknown: boolean
  /** Processes that it knew to hold or to have used something, and that have not called since. */
  readonly unheard: Set<string>
}

export function createLedger(rules: Rules, time: { readonly nowMs: number }) {
  const accounts = new Map<string, Account>()
  const totals = createTotals()
  /** Admissions beyond a limit, where the rules allow them: by `client window index`, and as a part of the limit. */
  const excess = new Map<string, { readonly count: number; readonly limit: number }>()
  /** By `client window index` and process: admitted without the authority, and what it had then last heard to be taken. */
  const alone = new Map<string, Map<string, { readonly taken: number; count: number }>>()
  /** By `client window index`. */
  const lost = new Map<string, Lost>()
  const latestLoss = new Map<string, Loss>()
  /** By client and process: the newest number that was ever carried out. */
  const carriedOut = new Map<string, number>()
  const askedFor = new WeakMap<TakeReply, Asked>()

  const accountOf = (client: string): Account => {
    const account = accounts.get(client) ?? {
      admitted: { minute: new Map(), day: new Map() },
      admissions: [],
      waiting: 0,
      book: new Map(),
      current: { minute: { ...UNUSED }, day: { ...UNUSED } },
      resets: { minute: 0, day: 0 },
      resetsBefore: new WeakMap(),
    }
    accounts.set(client, account)
    return account
  }
  const demand = (about: object, holds: Readonly<Record<string, boolean>>): void => {
    for (const invariant in holds)
      if (holds[invariant] !== true) {
        const detail = `${JSON.stringify(about)} (at ${time.nowMs.toFixed(3)} ms)`
        const violation = new Violation(invariant, detail)
        ledger.violation ??= violation
        throw violation
      }
  }

  /** What the dead have taken goes with the data, as far as no living process was told of it. */
  const forgetTheDead = (client: string, account: Account, living: readonly Witness[]): void => {
    for (const window of windows) {
      const { index, taken } = account.current[window]
      let dead = 0
      for (const [holder, entry] of account.book)
        if (entry[window].index === index && living.every(({ id }) => holder.split('.')[0] !== id))
          dead += entry[window].held
      let told = 0
      for (const { known } of living) {
        const reply = known.get(client)?.[window]
        if (reply?.index === index) told = Math.max(told, reply.taken)
      }
      const own = `${client} ${window} ${index}`
      const { times = 0, blind = 0, gone = 0 } = lost.get(own) ?? {}
      lost.set(own, { times, blind, gone: gone + Math.min(dead, Math.max(0, taken - told)) })
    }
  }
  /** What a call states of a window: who has not heard of its reset may have spent after it all since he was answered. */
  const statedIn = (
    request: TakeRequest,
    window: Window,
    now: { index: number; resetMs: number },
  ) => {
    const { index, used, held, fresh = 0, resetMs = 0 } = request[window]
    if (index !== now.index) return { held: 0, used: 0 }
    return resetMs < now.resetMs ? { held: held - used + fresh, used: fresh } : { held, used }
  }
  const hearAgain = (request: TakeRequest, reply: TakeReply): void => {
    const { client, process } = request
    const loss = latestLoss.get(client)
    if (loss === undefined) return
    loss.unheard.delete(process)
    const stated = statedIn(request, 'minute', reply.minute).held
    const granted = loss.unheard.size > 0 ? reply.minute.held - stated : 0
    for (const window of windows) {
      const own = `${client} ${window} ${reply[window].index}`
      const { times = 0, blind = 0, gone = 0 } = lost.get(own) ?? {}
      lost.set(own, { times: times + (loss.isUnknown ? 1 : 0), blind: blind + granted, gone })
    }
    loss.isUnknown = false
  }

  /** The books turn the page with the authority. */
  const rollOver = (account: Account, reply: Record<Window, { index: number }>): void => {
    for (const window of windows) {
      const current = account.current[window]
      const { index } = reply[window]
      if (index <= current.index) continue
      if (current.index !== -1) totals[window === 'minute' ? 'minutes' : 'days'] += 1
      Object.assign(current, { index, taken: 0, used: 0, limit: 0 })
      if (window === 'day') account.current.minute.resetMs = current.resetMs = 0
      if (window === 'day') account.book.clear()
    }
  }

  /** The caller's, unless it has forgotten the client since: then what it stated stays as it was, for good. */
  const entryOf = (book: Account['book'], { process, since = 0 }: TakeRequest) => {
    const entry = book.get(process)
    if (entry === undefined || entry.sequence > since) return entry
    book.delete(process)
    book.set(`${process}.${entry.sequence}`, entry)
    return undefined
  }

  const ledger = {
    totals,
    /** The first; a lessee takes what its authority throws for an outage. */
    violation: undefined as Violation | undefined,
    excess,
    alone,
    lost,
    accounts,

    offered: (client: string, limits: Limits): void => {
      totals.offered += 1
      const account = accountOf(client)
      account.limits = limits
      account.waiting += 1
    },

    sent: (witness: Witness, request: TakeRequest): void => {
      totals.calls += 1
      const { client, need, want } = request
      demand(request, {
        'one call in flight per client and process': !witness.inFlight.has(client),
        'sequence numbers rise': request.sequence > (witness.newest.get(request.process) ?? -1),
      })
      witness.inFlight.add(client)
      witness.newest.set(request.process, request.sequence)
      const latest = witness.known.get(client)
      for (const window of windows) {
        const { index, used, held } = request[window]
        const isPossible = used >= 0 && held >= used && need >= 0 && want >= need
        demand(request, { 'a call states whole and possible numbers': isPossible })
        if (!rules.isExact) continue
        const granted = latest?.[window].index === index ? latest[window].held : 0
        const about = { window, granted, request }
        demand(about, { 'nobody claims what he was not granted': held <= granted })
      }
    },

    ended: (witness: Witness, client: string): void => void witness.inFlight.delete(client),

    /** A call had no answer in time. waited: requests that waited for it. hasArrived: its answer had come, and was not read. */
    late: (client: string, { waited, hasArrived }: { waited: number; hasArrived: boolean }) => {
      totals.heldUp += waited
      demand({ client }, { 'an answer that is there in time is read': !hasArrived })
    },

    /** Calls under way that were sent to a store since it was silent. */
    tried: (calls: number): void =>
      demand({ calls }, { 'a silent store has one call at a time to work off': calls <= 1 }),

    /** clockMs: how far the authority's clock was ahead of true time when it answered. */
    heard: (
      witness: Witness,
      client: string,
      { reply, clockMs }: { reply: TakeReply; clockMs: number },
    ): void => {
      if (reply.status === 'stale') return
      const { minute, day } = reply
      witness.known.set(client, { minute, day, clockMs, asked: askedFor.get(reply) })
    },

    /** The authority has carried out a call. */
    carriedOut: (request: TakeRequest, reply: TakeReply): void => {
      const account = accountOf(request.client)
      const { book, current } = account
      askedFor.set(reply, { limits: request.limits, admissions: account.admissions.length })
      if (reply.status === 'short' && request.need > 0) totals.vain += 1
      if (reply.notice !== undefined) totals.notices += 1
      const isSameDay = reply.day.index === current.day.index
      const known = isSameDay ? book.get(request.process) : undefined
      const isRepeat = known !== undefined && request.sequence <= known.sequence
      // A repeat changes nothing, so it does not end a window for good either.
      if (!isRepeat) rollOver(account, reply)
      hearAgain(request, reply)
      const holder = `${request.client} ${request.process}`
      const newest = carriedOut.get(holder) ?? -1
      carriedOut.set(holder, Math.max(newest, request.sequence))
      const entry = entryOf(book, request)
      const isOfYesterday = !isRepeat && request.sequence <= newest
      const holds: Partial<Record<Window, Statement>> = {}
      const spent = Math.min(
        request.need,
        reply.minute.held - statedIn(request, 'minute', reply.minute).held,
      )
      for (const window of windows) {
        const now = current[window]
        const answer = reply[window]
        const { index } = answer
        const about = { window, isRepeat, books: now, request, reply }
        demand(about, { 'a window that has ended is never opened again': index >= now.index })
        if (!isRepeat) {
          const stated = statedIn(request, window, answer)
          const before = entry?.[window].index === index ? entry[window] : { held: 0, used: 0 }
          const after = { index, held: answer.held, used: stated.used + spent }
          const granted = answer.held - stated.held
          demand(about, { 'a call never takes tokens away': granted >= 0 })
          now.taken += after.held - before.held
          now.used += after.used - before.used
          now.limit = Math.max(now.limit, limitOf(request.limits, window))
          const limit = limitOf(request.limits, window)
          demand(about, { 'no grant beyond the limit': granted === 0 || now.taken <= limit })
          holds[window] = after
        }
        const { taken, used } = isRepeat && index > now.index ? UNUSED : now
        demand(about, {
          'taken and used are the sums of what the processes hold and have spent': rules.isExact
            ? answer.taken === taken && answer.used === used
            : answer.taken >= taken && answer.used >= used,
        })
      }
      const { minute, day } = holds
      if (minute !== undefined && day !== undefined)
        book.set(request.process, { sequence: request.sequence, minute, day, spent, isOfYesterday })
    },

    /** The authority has set a window back to 0: what is admitted from now on counts anew. */
    reset: (
      client: string,
      reset: readonly Window[],
      { state, witnesses }: { state: ClientState; witnesses: readonly Witness[] },
    ): void => {
      const account = accountOf(client)
      rollOver(account, state.counts)
      for (const window of reset) {
        const { resetMs } = state.counts[window]
        const now = account.current[window]
        let old = now.used
        for (const [holder, entry] of account.book) {
          const { index, held, used } = entry[window]
          if (index !== now.index) continue
          // Who has forgotten the client has no request that waits.
          const spent = holder.includes('.') ? 0 : entry.spent
          account.book.set(holder, {
            ...entry,
            [window]: { index, held: held - used + spent, used: spent },
          })
          old -= spent
        }
        now.taken -= old
        now.used -= old
        now.resetMs = resetMs
        account.resets[window] += 1
        account.admitted[window].set(now.index, 0)
        for (const { admitted } of witnesses) admitted.delete(`${client} ${window} ${now.index}`)
      }
    },

    /** The books as they are. */
    copied: (): Books =>
      new Map(
        Array.from(accounts, ([client, { book, current }]) => [
          client,
          {
            book: new Map(Array.from(book, ([holder, entry]) => [holder, { ...entry }])),
            current: structuredClone(current),
          },
        ]),
      ),

    /** The authority has forgotten these, or all since its books were `left`; what was admitted stays true. */
    dataLost: (clients: Iterable<string>, living: readonly Witness[], left: Books = new Map()) => {
      for (const client of clients) {
        const account = accountOf(client)
        forgetTheDead(client, account, living)
        const unheard = new Set(latestLoss.get(client)?.unheard)
        for (const holder of account.book.keys()) unheard.add(holder.split('.')[0] ?? '')
        for (const process of unheard)
          if (living.every(({ id }) => id !== process)) unheard.delete(process)
        latestLoss.set(client, { isUnknown: true, unheard })
        account.book.clear()
        const old = left.get(client)
        for (const [holder, entry] of old?.book ?? [])
          account.book.set(holder, { ...entry, isOfYesterday: true })
        for (const window of windows)
          Object.assign(
            account.current[window],
            old?.current[window] ?? { index: -1, taken: 0, used: 0 },
          )
      }
    },

    /** A request has its answer. atMs: when it was asked. waitedMs: pauses of its process apart. */
    decided: (
      witness: Witness,
      asked: { client: string; limits: Limits; atMs: number; waitedMs: number },
      decision: QuotaDecision,
    ): void => {
      const { client, limits, atMs, waitedMs } = asked
      const account = accountOf(client)
      account.waiting -= 1
      demand(asked, { 'decisions come in time': waitedMs <= rules.waitsAtMostMs })
      if (decision.kind === 'unavailable') {
        totals.unavailable += 1
        return
      }
      if (decision.degraded) totals.degraded += 1
      const mayBeSilent = decision.degraded || rules.missesNotices === true
      const isTrue = decision.view === undefined ? mayBeSilent : !decision.degraded
      demand(decision, { 'headers are true or absent': isTrue })
      const latest = witness.known.get(client)
      const storeNowMs = time.nowMs + (latest?.clockMs ?? 0)
      if (decision.kind === 'refused') {
        totals.refused += 1
        const about = { decision, atMs, latest, storeNowMs }
        if (decision.degraded) {
          // Windows in which the authority has not spoken end as the process reckons.
          const endsAfterAsking = (index: number): boolean =>
            index > (latest?.[decision.window].index ?? -1) ||
            atMs + (latest?.clockMs ?? 0) < (index + 1) * lengthMs[decision.window]
          const full = Array.from(witness.admitted).filter(
            ([own, count]) =>
              own.startsWith(`${client} ${decision.window} `) && count >= decision.limit,
          )
          demand(about, {
            'without the store only who has admitted all of a limit refuses': full.length > 0,
            'without the store nobody is refused by a window that may be over': full.some(([own]) =>
              endsAfterAsking(Number(own.split(' ').at(-1))),
            ),
          })
        }
        if (rules.isExact)
          demand(about, {
            'only who was told that all is taken refuses':
              (latest?.[decision.window].taken ?? 0) >= decision.limit,
          })
        if (decision.view !== undefined) {
          const { remaining, resetAtSeconds } = decision.view[decision.window]
          const [endMs, againMs] = [resetAtSeconds * 1000, decision.retryAfterSeconds * 1000]
          demand(about, {
            'a refusal tells 0 remaining': remaining === 0,
            // Where the store's clock went back to less than its rounding before the window, a whole window is told.
            'who waits for Retry-After is not refused by the same window again':
              latest === undefined || storeNowMs + againMs + ROUNDING_MS > endMs,
            'who asks behind the end of a window is not refused by it':
              atMs + (latest?.clockMs ?? 0) < endMs,
          })
          ledger.viewed(account, limits, decision.view, account.waiting)
        }
        // Who has higher limits since may hold ahead what is left under the old ones.
        if (rules.prompt !== undefined && limits === account.limits)
          ledger.refused(client, decision, rules.prompt())
        return
      }
      totals.admitted += 1
      const { charged } = decision
      const of = { minute: charged.minute.index, day: charged.day.index }
      account.admissions.push({ limits, of })
      account.resetsBefore.set(decision, { ...account.resets })
      for (const window of windows) {
        const { index } = charged[window]
        const count = (account.admitted[window].get(index) ?? 0) + 1
        account.admitted[window].set(index, count)
        const own = `${client} ${window} ${index}`
        witness.admitted.set(own, (witness.admitted.get(own) ?? 0) + 1)
        if (decision.degraded) {
          const { taken = 0 } = latest?.[window].index === index ? latest[window] : {}
          const processes = alone.get(own) ?? new Map()
          alone.set(own, processes)
          const first = processes.get(witness.id) ?? { taken, count: 0 }
          processes.set(witness.id, { ...first, count: first.count + 1 })
        }
        const now = account.current[window]
        const limit = limitOf(limits, window)
        if (!rules.isExact) {
          if (count > limit) excess.set(own, { count: count - limit, limit })
          continue
        }
        const about = { client, process: witness.id, window, index, count, limits, now, storeNowMs }
        demand(about, {
          'nobody decides without the authority': !decision.degraded,
          'admitted at most the limit':
            now.index >= index && (now.index > index || count <= now.limit),
          'admitted at most what the authority has handed out':
            now.index > index || count <= now.taken,
          'a lowered limit acts at once':
            count <= limit ||
            (!rules.isAlone &&
              count - limit <=
                ledger.admittedAbove(account, { window, index, limit }, latest?.asked)),
          'no admission after the end of the window it was charged to':
            latest !== undefined && storeNowMs < (index + 1) * lengthMs[window],
        })
      }
      if (decision.view !== undefined) ledger.viewed(account, limits, decision.view)
    },

    /** Admissions of those who have a higher limit still, since this process asked under its own. */
    admittedAbove: (
      { admissions }: Account,
      of: { window: Window; index: number; limit: number },
      asked: Asked | undefined,
    ): number => {
      const { window, index, limit } = of
      if (asked === undefined || limitOf(asked.limits, window) > limit) return 0
      return admissions
        .slice(asked.admissions)
        .filter((one) => one.of[window] === index && limitOf(one.limits, window) > limit).length
    },

    /** waiting: requests that may wait for what was given back, so that whoever is refused is not told of it. */
    viewed: (account: Account, limits: Limits, view: QuotaView, waiting = 0): void => {
      for (const window of windows) {
        const { limit, remaining, resetAtSeconds } = view[window]
        const index = (resetAtSeconds * 1000) / lengthMs[window] - 1
        const count = account.admitted[window].get(index) ?? 0
        const about = { window, view, count, waiting }
        demand(about, {
          'remaining is a whole number from 0 to the limit':
            limit === limitOf(limits, window) &&
            Number.isSafeInteger(remaining) &&
            remaining >= 0 &&
            remaining <= limit,
        })
        if (rules.isAlone && rules.isExact)
          demand(about, {
            'one process tells exactly what remains':
              remaining <= Math.max(0, limit - count) &&
              remaining >= Math.max(0, limit - count - waiting),
          })
      }
    },

    givenBack: (witness: Witness, client: string, admission: Admission): void => {
      totals.givenBack += 1
      const account = accountOf(client)
      for (const window of windows) {
        const { index } = admission.charged[window]
        // Admitted before a reset: what counts since has nothing of it.
        if (account.resetsBefore.get(admission)?.[window] !== account.resets[window]) continue
        account.admitted[window].set(index, (account.admitted[window].get(index) ?? 0) - 1)
        const own = `${client} ${window} ${index}`
        witness.admitted.set(own, (witness.admitted.get(own) ?? 0) - 1)
      }
    },

    /**
     * Tokens of a window that nobody has spent or waits for: those that nobody was granted, and those that living processes hold.
     * What the dead held is gone.
     */
    spare: (
      client: string,
      asked: { window: Window; index: number; limit: number },
      processes: readonly Holder[],
    ): number => {
      const { window, index, limit } = asked
      let spare = limit
      for (const { witness, isDead, undecided } of processes) {
        const admitted = witness.admitted.get(`${client} ${window} ${index}`) ?? 0
        if (!isDead) {
          spare -= admitted + undecided
          continue
        }
        let held = 0
        for (const [holder, entry] of accountOf(client).book)
          if (holder.split('.')[0] === witness.id && entry[window].index === index)
            held += entry[window].held
        spare -= Math.max(admitted, held)
      }
      return spare
    },

    /** Holders live and answer, and had the time to: then nobody is refused while they have tokens left. */
    refused: (
      client: string,
      { window, limit, view }: QuotaDecision & { kind: 'refused' },
      processes: readonly Holder[],
    ): void => {
      if (view === undefined) return
      const index = (view[window].resetAtSeconds * 1000) / lengthMs[window] - 1
      const spare: number = ledger.spare(client, { window, index, limit }, processes)
      demand(
        { spare, window },
        { 'nobody is refused while tokens are left that nobody waits for': spare <= 0 },
      )
    },

    /** All that this process ever spent is in the books, and it holds nothing more. isGone: it died and could not say so. */
    closed: (witness: Witness, { isGone }: { isGone: boolean }): void => {
      for (const [client, account] of accounts) {
        for (const window of windows) {
          const { index } = account.current[window]
          let [held, used] = [0, 0]
          let isOfYesterday = false
          for (const [holder, entry] of account.book) {
            if (holder.split('.')[0] !== witness.id) continue
            if (entry[window].index !== index) continue
            held += entry[window].held
            used += entry[window].used
            isOfYesterday ||= entry.isOfYesterday
          }
          const spent = witness.admitted.get(`${client} ${window} ${index}`) ?? 0
          const about = { client, process: witness.id, window, index, held, used, spent }
          if (isGone) {
            demand(about, {
              'the holds of a dead process stay taken': !rules.isExact || spent <= held,
            })
            continue
          }
          // It only costs tokens: nobody knows that he holds them.
          if (isOfYesterday) continue
          demand(about, { 'after drain nothing is held that was not spent': held === used })
          // What was admitted just before a reset may count as new.
          const isMore = rules.forgets || account.resets[window] > 0
          const isKnown = isMore ? used >= spent : used === spent
          demand(about, { 'after drain the authority knows every use': !rules.isExact || isKnown })
        }
      }
    },
  }
  return ledger
}

export type Ledger = ReturnType<typeof createLedger>
