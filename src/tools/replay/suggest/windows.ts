/** The windows of the plans that are suggested, in a row each. */
import type { SuggestedPlan } from '../report.ts'

/** One of the two windows of a plan. */
export interface WindowOfPlan {
  readonly plan: string
  readonly window: 'minute' | 'day'
  readonly clients: number
  readonly peaks: SuggestedPlan['peaks']['minute']
  readonly limit: number | undefined
  readonly atShare: number | undefined
  readonly refused: number | undefined
}

/** 0.98% */
export const percentOf = (share: number | undefined): string =>
  share === undefined ? '–' : `${Number((share * 100).toPrecision(2))}%`

export const windowsOf = ({ plan, clients, peaks, ...rest }: SuggestedPlan): WindowOfPlan[] =>
  (['minute', 'day'] as const).map((window) => {
    const of = window === 'minute' ? 'perMinute' : 'perDay'
    const { limits, atShare } = rest
    const found = { limit: limits?.[of], atShare: atShare?.[of], refused: atShare?.share }
    return { plan, window, clients, peaks: peaks[window], ...found }
  })
