"""Facts per model for the literature page that are not measured: assumption, parameters, papers.

A registered model without a line here fails a test. K is the number of labels.
"""

from typing import NamedTuple


class Fact(NamedTuple):
    """One model: what it assumes, what it estimates, and the papers it is from, by their keys."""

    assumes: str
    per_worker: str
    per_task: str
    papers: tuple[str, ...] = ()


FACTS = {
    "auto": Fact(
        "workers differ in which labels they mix up, may err together, and are known only as far as their votes show it",
        "K x K confusion, held near the mean worker's", "-", ("dawid1979", "sinha2018"),
    ),
    "mv": Fact("all workers are alike", "-", "-"),
    "ds": Fact("each worker mixes up labels in its own way, independently of the others", "K x K confusion", "-", ("dawid1979",)),
    "fds": Fact("as ds; each task counts for its likeliest label alone", "K x K confusion", "-", ("sinha2018", "dawid1979")),
    "hybrid": Fact("as ds until the class priors settle, then as fds", "K x K confusion", "-", ("sinha2018",)),
    "one-coin": Fact("a worker is right with one probability; all wrong labels are alike", "1 accuracy", "-", ("zhang2016",)),
    "iwmv": Fact("a worker is as good as its agreement with the labels", "1 weight", "-", ("li2014",)),
    "glad": Fact("workers differ in ability, tasks in difficulty", "1 ability", "1 difficulty", ("whitehill2009",)),
    "kos": Fact(
        "two labels; a worker is right with one probability; assignments are random", "1 message per vote",
        "1 message per vote", ("karger2011", "karger2014"),
    ),
    "mmsr": Fact(
        "a worker is right with one probability, but for a minority that may do anything", "1 skill", "-", ("ma2020",)
    ),
    "wawa": Fact("a worker is as good as its agreement with majority vote, asked once", "1 agreement", "-", ("ustalov2024",)),
    "zbs": Fact("a worker's skill moves towards its agreement with the labels, step by step", "1 skill", "-", ("ustalov2024",)),
    "goldmv": Fact("a worker is as good as its votes on gold tasks", "1 accuracy", "-", ("ustalov2024",)),
    "catd": Fact(
        "errors of a worker have a variance; one with few votes is trusted no more than its interval allows", "1 weight", "-",
        ("li2014catd",),
    ),
    "la": Fact("a worker's weight is its agreement with the labels so far; two passes", "1 weight", "-", ("yang2022",)),
    "zc": Fact("as one-coin, from a start where all workers are equally good", "1 reliability", "-", ("demartini2012",)),
    "lfc": Fact("as ds, with a Dirichlet prior for workers who are mostly right", "K x K confusion", "-", ("raykar2010",)),
    "ibcc": Fact(
        "as lfc, all parameters with a distribution (variational Bayes)", "K x K confusion", "-", ("kim2012", "simpson2013")
    ),
    "ebcc": Fact(
        "labels have subtypes that workers answer alike, so that errors are correlated", "K x subtypes x K confusion", "-",
        ("li2019",),
    ),
    "mace": Fact("a worker either knows the label or spams in its own way", "1 competence and K shares", "-", ("hovy2013",)),
    "ordinal": Fact(
        "labels have an order; judges differ in bias and scale on it", "bias, scale", "1 latent grade", ("uebersax1993",)
    ),
    "panel": Fact(
        "every judge votes on most tasks, and gold tasks say whom to believe beyond what the votes say by themselves",
        "1 weight", "-",
    ),
}  # fmt: skip

PAPERS = {
    "dawid1979": "A. P. Dawid, A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm. "
    "Journal of the Royal Statistical Society, Series C 28(1).",
    "sinha2018": "V. B. Sinha, S. Rao, V. N. Balasubramanian (2018). Fast Dawid-Skene: a fast vote aggregation scheme for "
    "sentiment classification. WISDOM workshop at KDD.",
    "zhang2016": "Y. Zhang, X. Chen, D. Zhou, M. I. Jordan (2016). Spectral methods meet EM: a provably optimal algorithm for "
    "crowdsourcing. Journal of Machine Learning Research 17.",
    "li2014": "H. Li, B. Yu (2014). Error rate bounds and iterative weighted majority voting for crowdsourcing. arXiv:1411.4086.",
    "whitehill2009": "J. Whitehill, P. Ruvolo, T. Wu, J. Bergsma, J. Movellan (2009). Whose vote should count more: optimal "
    "integration of labels from labelers of unknown expertise. NIPS.",
    "karger2011": "D. R. Karger, S. Oh, D. Shah (2011). Iterative learning for reliable crowdsourcing systems. NIPS.",
    "karger2014": "D. R. Karger, S. Oh, D. Shah (2014). Budget-optimal task allocation for reliable crowdsourcing systems. "
    "Operations Research 62(1).",
    "ma2020": "Q. Ma, A. Olshevsky (2020). Adversarial crowdsourcing through robust rank-one matrix completion. NeurIPS.",
    "ustalov2024": "D. Ustalov, N. Pavlichenko, B. Tseitlin (2024). Learning from crowds with Crowd-Kit. Journal of Open Source "
    "Software 9(96).",
    "li2014catd": "Q. Li, Y. Li, J. Gao, L. Su, B. Zhao, M. Demirbas, W. Fan, J. Han (2014). A confidence-aware approach for "
    "truth discovery on long-tail data. Proceedings of the VLDB Endowment 8(4).",
    "yang2022": "Y. Yang, Z.-Q. Zhao, Q. Bai, Q. Liu, W. Li (2022). A light-weight, effective and efficient model for label "
    "aggregation in crowdsourcing. arXiv:2212.00007.",
    "demartini2012": "G. Demartini, D. E. Difallah, P. Cudré-Mauroux (2012). ZenCrowd: leveraging probabilistic reasoning and "
    "crowdsourcing techniques for large-scale entity linking. WWW.",
    "raykar2010": "V. C. Raykar, S. Yu, L. H. Zhao, G. H. Valadez, C. Florin, L. Bogoni, L. Moy (2010). Learning from crowds. "
    "Journal of Machine Learning Research 11.",
    "kim2012": "H.-C. Kim, Z. Ghahramani (2012). Bayesian classifier combination. AISTATS.",
    "simpson2013": "E. Simpson, S. Roberts, I. Psorakis, A. Smith (2013). Dynamic Bayesian combination of multiple imperfect "
    "classifiers. Decision Making and Imperfection, Springer.",
    "li2019": "Y. Li, B. Rubinstein, T. Cohn (2019). Exploiting worker correlation for label aggregation in crowdsourcing. ICML.",
    "hovy2013": "D. Hovy, T. Berg-Kirkpatrick, A. Vaswani, E. Hovy (2013). Learning whom to trust with MACE. NAACL-HLT.",
    "uebersax1993": "J. S. Uebersax, W. M. Grove (1993). A latent trait finite mixture model for the analysis of rating "
    "agreement. Biometrics 49(3).",
}
