ThrottledSelfTrainingClassifier = TriTrainingClassifier = MutualLearningClassifier = SpacedRepetitionClassifier = CoDecompositionClassifier = None
