import { compareEngines } from './differential.ts'

compareEngines({ sound: 60, hostile: 100, next: 25, requests: 250 })
